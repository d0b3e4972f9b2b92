//go:build kubernetes

package kubernetes_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
	runners "belljar/sandbox/local"
)

// scaleEnv says how many nodes there are, how many commands come in each second, and for how many seconds: NODES/RATE/SECONDS. See
// scripts/kubernetes.
const scaleEnv = "SCALE"

type scale struct{ nodes, rate, seconds int }

func scaleOf(t *testing.T) scale {
	t.Helper()
	s := scale{1000, 500, 3}
	if text := os.Getenv(scaleEnv); text != "" {
		if n, err := fmt.Sscanf(text, "%d/%d/%d", &s.nodes, &s.rate, &s.seconds); n != 3 {
			t.Fatalf("%s=%s: %v", scaleEnv, text, err)
		}
	}
	return s
}

// TestScale runs commands on a thousand nodes of fake kubelets, in whose pods nothing runs: they answer as inits do. The API server, the
// scheduler and the controllers are real. What of it takes time, takes that of this one machine: figures are logged, and counts are tested.
func TestScale(t *testing.T) {
	size := scaleOf(t)
	fake := startFakeKubelets(t, size.nodes)
	in := ownNamespace(t, "scale")
	for _, part := range []struct {
		name string
		test func(*testing.T, *fakeKubelets, string, scale)
	}{{"sessions", scaleSessions}, {"pool", scalePool}} {
		t.Run(part.name, func(t *testing.T) { part.test(t, fake, in, size) })
		await(t, time.Minute, "nothing is left", func() bool { return left(in) == "" })
	}
	fake.stop(t)
}

// fakeKubelets are nodes of a process of their own.
type fakeKubelets struct {
	name string
	cmd  *exec.Cmd
	out  *bufio.Reader
	log  bytes.Buffer
}

func startFakeKubelets(t *testing.T, nodes int) *fakeKubelets {
	t.Helper()
	f := &fakeKubelets{name: "fake-" + strings.ToLower(rand.Text()[:8])}
	f.cmd = exec.Command(os.Getenv("CLUSTER_PROGRAM"), "fake-kubelets", "--kubeconfig", os.Getenv("KUBECONFIG"), "--name", f.name, "--nodes", strconv.Itoa(nodes), "--delay", "500ms",
		"--client-ca", filepath.Join(os.Getenv("CLUSTER"), "pki/ca.crt"))
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.out, f.cmd.Stderr = bufio.NewReader(out), &f.log
	began := time.Now()
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.cmd.Process.Kill() // does nothing after stop
		f.cmd.Wait()
		kubectl("delete", "nodes", "-l", "belljar.dev/fake="+f.name)
		if t.Failed() {
			t.Logf("fake kubelets: %s", f.log.String())
		}
	})
	if line, err := f.out.ReadString('\n'); line != "ready\n" {
		f.cmd.Wait()
		t.Fatalf("%q, %v: %s", line, err, f.log.String())
	}
	t.Logf("%d nodes registered in %v", nodes, time.Since(began).Round(100*time.Millisecond))
	return f
}

// stop wants all pods to have ended before.
func (f *fakeKubelets) stop(t *testing.T) {
	t.Helper()
	f.cmd.Process.Signal(syscall.SIGTERM)
	text, _ := io.ReadAll(f.out)
	if err := f.cmd.Wait(); err != nil || !strings.HasSuffix(string(text), " left 0\n") {
		t.Errorf("%v: %s", err, text)
	}
	t.Logf("pods: %s", text)
	if nodes := mustKubectl(t, "get", "nodes", "-l", "belljar.dev/fake="+f.name, "-o", "name"); nodes != "" {
		t.Errorf("left: %.200s", nodes)
	}
}

// runner is a runner over pods of the fake nodes, and its requests.
func (f *fakeKubelets) runner(t *testing.T, in string, pool sandbox.PoolSize) (*runners.Local, *api) {
	t.Helper()
	a := countRequests(t)
	e := open(t, func(c *kubernetes.Config) {
		c.File, c.Namespace, c.Start = a.file, in, 10*time.Minute
		c.Pods.NodeSelector = map[string]string{"belljar.dev/fake": f.name}
		c.Pods.Tolerations = []kubernetes.Toleration{{Key: "belljar.dev/fake", Operator: "Equal", Value: f.name, Effect: "NoSchedule"}}
	})
	l := runner(t, e, pool)
	l.Admission = sandbox.Admission{MaxRunning: 100, MaxQueued: 200, MaxWait: 10 * time.Second}
	return l, a
}

// runner is a runner over an engine, with a pool.
func runner(t *testing.T, e *kubernetes.Engine, pool sandbox.PoolSize) *runners.Local {
	t.Helper()
	l := runners.New(e, e)
	l.StateDir = t.TempDir()
	p := l.Profiles[sandbox.DefaultProfile]
	p.Image, p.Pull, p.Pool = baseImage, sandbox.PullNever, pool
	p.Limits.Memory, p.Limits.Tmp = 64<<20, 4<<20
	l.Profiles[sandbox.DefaultProfile] = p
	t.Cleanup(l.Close)
	return l
}

// used is the processor time of this process, of the parts of the cluster and of the fake kubelets, so far.
func (f *fakeKubelets) used(t *testing.T) map[string]time.Duration {
	t.Helper()
	pids := map[string]string{"belljar": strconv.Itoa(os.Getpid()), "kubelets": strconv.Itoa(f.cmd.Process.Pid)}
	for _, part := range []string{"apiserver", "etcd", "scheduler", "controllers"} {
		text, err := os.ReadFile(filepath.Join(os.Getenv("CLUSTER"), part+".pid"))
		if err != nil {
			t.Fatal(err)
		}
		pids[part] = strings.TrimSpace(string(text))
	}
	used := map[string]time.Duration{}
	for part, pid := range pids {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest) // proc_pid_stat(5), from the third on
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		used[part] = time.Duration(user+system) * 10 * time.Millisecond
	}
	return used
}

// logUsed logs what was used since, for each of n.
func (f *fakeKubelets) logUsed(t *testing.T, before map[string]time.Duration, n int, what string) {
	t.Helper()
	var all []string
	for part, now := range f.used(t) {
		all = append(all, fmt.Sprintf("%s %.2f", part, float64((now-before[part]).Microseconds())/1000/float64(max(1, n))))
	}
	slices.Sort(all)
	t.Logf("processor time, in ms for each of %d %s: %s", n, what, strings.Join(all, ", "))
}

// eachOf calls do for every number below n, several at once.
func eachOf(n, atOnce int, do func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// offer calls give at a rate, whatever becomes of it.
func (s scale) offer(give func(i int)) {
	began := time.Now()
	for i := range s.rate * s.seconds {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(s.rate))))
		give(i)
	}
}

// podsOfNodes is how many pods each node has.
func podsOfNodes(t *testing.T, in string) map[string]int {
	t.Helper()
	each := map[string]int{}
	for node := range strings.FieldsSeq(mustKubectl(t, "-n", in, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")) {
		each[node]++
	}
	return each
}

// wantSpread wants no node to have many more pods than others.
func wantSpread(t *testing.T, in string, least int, size scale) {
	t.Helper()
	each, pods := podsOfNodes(t, in), 0
	for _, n := range each {
		pods += n
	}
	for node, n := range each {
		if n > 2*(1+pods/size.nodes) {
			t.Errorf("node %s has %d of %d pods", node, n, pods)
		}
	}
	if pods < least {
		t.Errorf("%d pods are on nodes, want %d at least", pods, least)
	}
	t.Logf("%d pods on %d nodes", pods, len(each))
}

// times are quantiles.
func times(took []time.Duration) string {
	if len(took) == 0 {
		return "none"
	}
	slices.Sort(took)
	at := func(percent int) time.Duration {
		return took[min(len(took)-1, len(took)*percent/100)].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p95 %v, p99 %v", at(50), at(95), at(99))
}

// scaleSessions runs commands in sessions of many pods. Each runs once and in its turn, and none takes a request to the API server.
func scaleSessions(t *testing.T, f *fakeKubelets, in string, size scale) {
	l, a := f.runner(t, in, sandbox.PoolSize{Max: sandbox.NoPool})
	const sessions = 100
	total := size.rate * size.seconds
	command := func(session, i int) sandbox.Command {
		return sandbox.Command{Session: fmt.Sprint("scale-", session), Script: fmt.Sprint("echo ", i)} // see process of e2e/testdata/cluster
	}
	var mu sync.Mutex
	var waited, took []time.Duration
	run := func(session, n, i int) {
		r, err := sandbox.Run(t.Context(), l, command(session, i))
		if want := fmt.Sprintf("%d of %d\n", n, i); err != nil || r.Status != sandbox.StatusSuccess || string(r.Stdout.Head) != want || r.SessionLost != "" || len(r.Lingering) > 0 {
			t.Errorf("session %d, command %d: %q, want %q: %s %s %s %s, error %v", session, i, r.Stdout.Head, want, r.Status, r.Cause, r.Message, r.SessionLost, err)
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, r.Timing.Total)
	}
	l.Warm()
	began := time.Now()
	eachOf(sessions, 32, func(i int) { run(i, 1, i) })
	t.Logf("%d sessions opened in %v; the first commands took %s; %v", sessions, time.Since(began).Round(100*time.Millisecond), times(took), a.now())
	wantSpread(t, in, sessions, size)
	took = nil
	before, used := a.now(), f.used(t)
	type turn struct {
		i  int
		at time.Time
	}
	var all sync.WaitGroup
	var turns [sessions]chan turn
	for s := range turns {
		turns[s] = make(chan turn, total/sessions+1)
		all.Go(func() {
			n := 1
			for turn := range turns[s] {
				n++
				run(s, n, turn.i)
				mu.Lock()
				waited = append(waited, time.Since(turn.at))
				mu.Unlock()
			}
		})
	}
	began = time.Now()
	size.offer(func(i int) { turns[i%sessions] <- turn{i, time.Now()} })
	offered := time.Since(began)
	for _, c := range turns {
		close(c)
	}
	all.Wait()
	ran := time.Since(began)
	each, requests := a.since(before)
	t.Logf("%d commands offered in %v (%.0f/s) and run in %v (%.0f/s); each took %s, and %s with its wait for the session; %d requests to the API server",
		total, offered.Round(10*time.Millisecond), float64(total)/offered.Seconds(), ran.Round(10*time.Millisecond), float64(total)/ran.Seconds(), times(took), times(waited), requests)
	f.logUsed(t, used, total, "commands")
	if len(waited) != total || requests != 0 {
		t.Errorf("%d results of %d commands; requests %v", len(waited), total, each)
	}
	eachOf(sessions, 32, func(i int) {
		if err := l.RemoveSession(context.Background(), fmt.Sprint("scale-", i)); err != nil {
			t.Error(err)
		}
	})
	if each, n := a.since(nil); n > 6*each["POST pods"] {
		t.Errorf("%d requests for %d pods: %v", n, each["POST pods"], each)
	} else {
		t.Logf("%.2f requests a pod: %v", float64(n)/float64(each["POST pods"]), each)
	}
}

// scalePool runs commands that each take a fresh pod, more than the machine can make. Each of them has a result, or is refused as busy.
func scalePool(t *testing.T, f *fakeKubelets, in string, size scale) {
	least, most, atOnce := 10, 80, 50
	if os.Getenv(scaleEnv) == "" { // this measures nothing
		most, atOnce = 24, 16
	}
	l, a := f.runner(t, in, sandbox.PoolSize{Min: least, Max: most, MaxAge: 10 * time.Second})
	l.Admission.MaxRunning = atOnce // pods that the API server is asked for at once, with those of the pool
	pool := func() sandbox.PoolStatus {
		list, err := l.Pools(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	l.Warm()
	await(t, time.Minute, "the pool is filled", func() bool { return pool().Ready >= least })
	wantSpread(t, in, least, size)
	used := f.used(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	fates := map[string]int{}
	began := time.Now()
	total := size.rate * size.seconds
	size.offer(func(i int) {
		all.Go(func() {
			r, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: fmt.Sprint("echo ", i)})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && r.Status == sandbox.StatusSuccess && string(r.Stdout.Head) == fmt.Sprintf("1 of %d\n", i):
				kind := "cold"
				if r.Container.Warm {
					kind = "warm"
				}
				fates[kind]++
				took = append(took, r.Timing.Total)
			case sandbox.CauseOf(err) == sandbox.CauseBusy:
				fates["busy"]++
			default:
				fates["wrong"]++
				t.Errorf("command %d: %q, %s %s %s, error %v", i, r.Stdout.Head, r.Status, r.Cause, r.Message, err)
			}
		})
		if i == total*3/4 {
			all.Go(func() { wantSpread(t, in, 0, size) })
		}
	})
	all.Wait()
	ran := time.Since(began)
	served := fates["warm"] + fates["cold"]
	t.Logf("%d commands offered in %d s: %v; %d served in %v (%.1f/s), each in %s; %+v", total, size.seconds, fates, served, ran.Round(10*time.Millisecond),
		float64(served)/ran.Seconds(), times(took), pool())
	if served+fates["busy"] != total || served < min(total, l.Admission.MaxRunning) {
		t.Errorf("%v, want %d in all", fates, total)
	}
	rest := await(t, 10*time.Minute, "the pool is as before", func() bool {
		s := pool()
		return s.Target == least && s.Ready == least && s.Making == 0 && len(strings.Fields(left(in))) == least+1 // and the lease
	})
	t.Logf("the pool was as before after %v: %+v", rest.Round(time.Second), pool())
	l.Close()
	each, n := a.since(nil)
	if n > 6*each["POST pods"] {
		t.Errorf("%d requests for %d pods: %v", n, each["POST pods"], each)
	}
	t.Logf("%.2f requests a pod: %v", float64(n)/float64(each["POST pods"]), each)
	f.logUsed(t, used, each["POST pods"], "pods")
}
