package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// fakeLabel is a label of each of them, and of its taint: its value is the name that they have in common.
	fakeLabel = "belljar.dev/fake"
	leases    = "kube-node-lease" // the namespace of nodes' leases
	// renewEach is how often a node is heard of: a third of as often as a kubelet, and twice as often as the controller of nodes wants.
	renewEach = 25 * time.Second
	atOnce    = 16 // requests about nodes
)

// fake is a number of nodes that this process pretends to be: the API server has them, and reaches them all at one address.
type fake struct {
	client kubernetes.Interface
	name   string
	count  int
	port   int
	delay  time.Duration
	caFile string
	pods   pods
}

// fakeKubelets registers nodes, and says of their pods what kubelets would, as kwok does: nothing is pulled, and nothing runs. A pod's main
// process is a process. It prints "ready", and at its end what there was, and how many main processes had not ended.
func fakeKubelets() *cobra.Command {
	cmd := &cobra.Command{Use: "fake-kubelets", SilenceUsage: true}
	var f fake
	kubeconfig := cmd.Flags().String("kubeconfig", "", "of an administrator")
	cmd.Flags().StringVar(&f.name, "name", "fake", "what the nodes' names begin with")
	cmd.Flags().IntVar(&f.count, "nodes", 1000, "how many")
	cmd.Flags().DurationVar(&f.delay, "delay", 0, "how long a pod takes to run")
	cmd.Flags().StringVar(&f.caFile, "client-ca", "", "the certificates of who signs the API server's, as a client")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
		if err != nil {
			return err
		}
		config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
		if f.client, err = kubernetes.NewForConfig(config); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return f.run(ctx)
	}
	return cmd
}

func (f *fake) run(ctx context.Context) error {
	server, err := f.serve()
	if err != nil {
		return err
	}
	defer server.Close()
	defer f.unregister()
	if err := f.watch(ctx); err != nil {
		return err
	}
	if err := f.each(func(node string) error { return f.register(ctx, node) }); err != nil {
		return err
	}
	fmt.Println("ready")
	for tick := time.NewTicker(renewEach); ; {
		select {
		case <-tick.C:
			if err := f.each(func(node string) error { return f.renew(ctx, node) }); err != nil && ctx.Err() == nil {
				log.Println("renewing:", err)
			}
		case <-ctx.Done():
			fmt.Println(f.pods.end())
			return nil
		}
	}
}

// each calls do for every node, several at once.
func (f *fake) each(do func(node string) error) error {
	var all sync.WaitGroup
	var errs [atOnce]error
	for worker := range atOnce {
		all.Go(func() {
			for i := worker; i < f.count && errs[worker] == nil; i += atOnce {
				errs[worker] = do(fmt.Sprintf("%s-%04d", f.name, i))
			}
		})
	}
	all.Wait()
	return errors.Join(errs[:]...)
}

// register makes a node, and its lease.
func (f *fake) register(ctx context.Context, name string) error {
	room := core.ResourceList{
		core.ResourceCPU: resource.MustParse("16"), core.ResourceMemory: resource.MustParse("64Gi"),
		core.ResourceEphemeralStorage: resource.MustParse("1Ti"), core.ResourcePods: resource.MustParse("110"),
	}
	now := meta.Now()
	status := core.NodeStatus{
		Capacity: room, Allocatable: room, Phase: core.NodeRunning,
		Addresses:       []core.NodeAddress{{Type: core.NodeHostName, Address: "localhost"}},
		DaemonEndpoints: core.NodeDaemonEndpoints{KubeletEndpoint: core.DaemonEndpoint{Port: int32(f.port)}},
		NodeInfo:        core.NodeSystemInfo{KubeletVersion: "v0.0.0-fake", OperatingSystem: "linux", Architecture: "amd64"},
	}
	for kind, is := range map[core.NodeConditionType]core.ConditionStatus{
		core.NodeReady: core.ConditionTrue, core.NodeMemoryPressure: core.ConditionFalse, core.NodeDiskPressure: core.ConditionFalse, core.NodePIDPressure: core.ConditionFalse,
	} {
		status.Conditions = append(status.Conditions, core.NodeCondition{Type: kind, Status: is, LastHeartbeatTime: now, LastTransitionTime: now, Reason: "Fake"})
	}
	node, err := f.client.CoreV1().Nodes().Create(ctx, &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{fakeLabel: f.name, core.LabelHostname: name, core.LabelOSStable: "linux"}},
		Status:     status,
	}, meta.CreateOptions{})
	if err != nil {
		return err
	}
	// A new node has the taint of one that is not ready. Its controller would take each away, but not that many in a short time.
	taints := fmt.Appendf(nil, `{"spec":{"taints":[{"key":%q,"value":%q,"effect":"NoSchedule"}]}}`, fakeLabel, f.name)
	if _, err = f.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, taints, meta.PatchOptions{}); err != nil {
		return err
	}
	seconds, renewed := int32(40), meta.NowMicro()
	_, err = f.client.CoordinationV1().Leases(leases).Create(ctx, &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{
			Name: name, Labels: map[string]string{fakeLabel: f.name},
			OwnerReferences: []meta.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}},
		},
		Spec: coordination.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}, meta.CreateOptions{})
	return err
}

func (f *fake) renew(ctx context.Context, node string) error {
	now := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(meta.RFC3339Micro))
	_, err := f.client.CoordinationV1().Leases(leases).Patch(ctx, node, types.MergePatchType, now, meta.PatchOptions{})
	return err
}

func (f *fake) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all := meta.ListOptions{LabelSelector: fakeLabel + "=" + f.name}
	err := errors.Join(f.client.CoreV1().Nodes().DeleteCollection(ctx, meta.DeleteOptions{}, all),
		f.client.CoordinationV1().Leases(leases).DeleteCollection(ctx, meta.DeleteOptions{}, all))
	if err != nil {
		log.Println("deleting the nodes:", err)
	}
}

// serve is the kubelets' own API, on loopback, for the API server alone.
func (f *fake) serve() (*http.Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f.port = listener.Addr().(*net.TCPAddr).Port
	certificate, err := selfSigned()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.caFile)
	callers := x509.NewCertPool()
	if err != nil || !callers.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("reading the certificates of %q: %w", f.caFile, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", f.pods.attach)
	server := &http.Server{
		Handler: mux, ErrorLog: log.Default(),
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: callers, MinVersion: tls.VersionTLS12},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // attachments upgrade HTTP/1
	}
	go server.ServeTLS(listener, "", "")
	return server, nil
}

func selfSigned() (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fake-kubelets"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	text, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}, err
}

// isOurs reports whether a pod is bound to one of the nodes.
func (f *fake) isOurs(p *core.Pod) bool { return strings.HasPrefix(p.Spec.NodeName, f.name+"-") }
