package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	// relist is how long a kubelet takes to see that a container has ended.
	relist = time.Second
	// killed is the exit status of who was ended by SIGKILL.
	killed = 128 + 9
)

// pods are those that are bound to the nodes, by their UIDs.
type pods struct {
	mu    sync.Mutex
	known map[types.UID]*pod
	mains []*process // all that were started
	over  bool       // no more are started
	all   sync.WaitGroup
}

// pod is one of them.
type pod struct {
	*core.Pod
	main *process      // nil until it runs
	doom chan struct{} // closed once it is to end
	gone chan struct{} // closed once the API server has forgotten it
}

// watch does what is to be done for all pods of the nodes, until ctx ends.
func (f *fake) watch(ctx context.Context) error {
	f.pods.known = map[types.UID]*pod{}
	factory := informers.NewSharedInformerFactory(f.client, 0)
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool {
			if last, is := object.(cache.DeletedFinalStateUnknown); is {
				object = last.Obj
			}
			p, is := object.(*core.Pod)
			return is && f.isOurs(p)
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { f.see(object.(*core.Pod)) },
			UpdateFunc: func(_, object any) { f.see(object.(*core.Pod)) },
			DeleteFunc: func(object any) {
				if last, is := object.(cache.DeletedFinalStateUnknown); is {
					object = last.Obj
				}
				f.pods.forget(object.(*core.Pod).UID)
			},
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

// see takes a pod's present state.
func (f *fake) see(now *core.Pod) {
	f.pods.mu.Lock()
	defer f.pods.mu.Unlock()
	p := f.pods.known[now.UID]
	if p == nil && !f.pods.over {
		p = &pod{Pod: now, doom: make(chan struct{}), gone: make(chan struct{})}
		f.pods.known[now.UID] = p
		f.pods.all.Go(func() { f.keep(p) })
	}
	if p != nil && now.DeletionTimestamp != nil && !isClosed(p.doom) {
		close(p.doom)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (s *pods) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.known[uid]; p != nil {
		delete(s.known, uid)
		close(p.gone)
	}
}

// end ends all that runs, and says what there was, and how many main processes had not ended.
func (s *pods) end() string {
	s.mu.Lock()
	s.over = true
	var commands, asked uint32
	left := 0
	for _, main := range s.mains {
		commands, asked = commands+main.commands.Load(), asked+main.asked.Load()
		if !isClosed(main.ended) {
			left++
		}
	}
	started := len(s.mains)
	for uid, p := range s.known {
		delete(s.known, uid)
		close(p.gone)
	}
	s.mu.Unlock()
	s.all.Wait()
	return fmt.Sprintf("pods %d, commands %d, requests to inits %d, left %d", started, commands, asked, left)
}

// keep is a pod's life.
func (f *fake) keep(p *pod) {
	select {
	case <-time.After(f.delay):
	case <-p.doom:
	case <-p.gone:
		return
	}
	if !isClosed(p.doom) {
		f.runMain(p)
	}
	select {
	case <-time.After(relist): // the main process has ended, and its pod not been deleted
		if p.main != nil {
			f.say(p, ended(p))
		}
	case <-p.doom:
	case <-p.gone:
		return
	}
	select {
	case <-p.doom:
		now := int64(0)
		err := f.client.CoreV1().Pods(p.Namespace).Delete(context.Background(), p.Name, meta.DeleteOptions{GracePeriodSeconds: &now, Preconditions: meta.NewUIDPreconditions(string(p.UID))})
		if err != nil && !over(err) {
			log.Printf("deleting pod %s: %v", p.Name, err)
		}
	case <-p.gone:
	}
}

// runMain runs the main process of a pod, up to its end.
func (f *fake) runMain(p *pod) {
	main, err := start(p.Pod)
	if err != nil {
		f.say(p, core.PodStatus{Phase: core.PodPending, ContainerStatuses: statuses(p.Spec.Containers, core.ContainerState{
			Waiting: &core.ContainerStateWaiting{Reason: "RunContainerError", Message: err.Error()},
		})})
		select {
		case <-p.doom:
		case <-p.gone:
		}
		return
	}
	f.pods.mu.Lock()
	p.main = main
	f.pods.mains = append(f.pods.mains, main)
	f.pods.mu.Unlock()
	f.say(p, running(p))
	select {
	case <-main.ended:
		return
	case <-p.doom:
	case <-p.gone:
	}
	main.end(killed)
}

// say tells the API server of a pod's status. One that is gone has none.
func (f *fake) say(p *pod, s core.PodStatus) {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": s})
	if err == nil {
		_, err = f.client.CoreV1().Pods(p.Namespace).Patch(context.Background(), p.Name, types.StrategicMergePatchType, text, meta.PatchOptions{}, "status")
	}
	if err != nil && !isClosed(p.gone) && !over(err) {
		log.Printf("saying that pod %s is %s: %v", p.Name, s.Phase, err)
	}
}

// over reports whether a pod is gone, or another of its name is there.
func over(err error) bool { return errors.IsNotFound(err) || errors.IsConflict(err) }

// statuses are those of containers that are all in that state.
func statuses(containers []core.Container, state core.ContainerState) (all []core.ContainerStatus) {
	for _, c := range containers {
		is := state.Running != nil
		id := c.Image
		if !strings.Contains(id, "sha256:") {
			id = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(id)))
		}
		all = append(all, core.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: id, ContainerID: "fake://" + c.Name, Ready: is, Started: &is, State: state})
	}
	return all
}

func running(p *pod) core.PodStatus {
	now := meta.Now()
	s := core.PodStatus{Phase: core.PodRunning, StartTime: &now, ContainerStatuses: statuses(p.Spec.Containers, core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: now}})}
	s.InitContainerStatuses = statuses(p.Spec.InitContainers, core.ContainerState{
		Terminated: &core.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now},
	})
	for _, kind := range []core.PodConditionType{core.PodInitialized, core.PodReady, core.ContainersReady} {
		s.Conditions = append(s.Conditions, core.PodCondition{Type: kind, Status: core.ConditionTrue, LastTransitionTime: now})
	}
	return s
}

func ended(p *pod) core.PodStatus {
	s, how := core.PodStatus{Phase: core.PodSucceeded}, &core.ContainerStateTerminated{Reason: "Completed", ExitCode: p.main.code, FinishedAt: meta.Now()}
	if p.main.code != 0 {
		s.Phase, how.Reason = core.PodFailed, "Error"
	}
	s.ContainerStatuses = statuses(p.Spec.Containers, core.ContainerState{Terminated: how})
	for _, kind := range []core.PodConditionType{core.PodReady, core.ContainersReady} {
		s.Conditions = append(s.Conditions, core.PodCondition{Type: kind, Status: core.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: meta.Now()})
	}
	return s
}

// attach serves an attachment to a main process.
func (s *pods) attach(w http.ResponseWriter, r *http.Request) {
	var p *pod
	s.mu.Lock()
	for _, known := range s.known {
		if known.Namespace == r.PathValue("namespace") && known.Name == r.PathValue("pod") && known.main != nil {
			p = known
		}
	}
	s.mu.Unlock()
	options, err := remotecommand.NewOptions(r)
	if err != nil || p == nil {
		http.Error(w, "no such container runs", http.StatusNotFound)
		return
	}
	remotecommand.ServeAttach(w, r, p, p.Name, string(p.UID), r.PathValue("container"), options, 4*time.Hour, 30*time.Second, remotecommand.SupportedStreamingProtocols)
}
