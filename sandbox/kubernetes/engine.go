package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"sync"
	"time"

	"belljar/internal/ownfile"
	"belljar/sandbox"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/kube"
	"belljar/sandbox/internal/proc"
)

// Config is what an Engine is made of.
type Config struct {
	// File and Context name an API server as kubectl's flags do. Empty: as kubectl finds one, or that of
	// the pod that this process is in.
	File, Context string
	// Namespace is where the pods are. Empty: that of the context.
	Namespace string
	// Dir is where belljar keeps its state: it knows sessions by their records here. Empty: only those of this process.
	Dir string
	// InitImage is an image that has belljar at InitPath, of this version.
	InitImage, InitPath string
	// Pull is when the nodes pull InitImage: Always, IfNotPresent or Never.
	Pull string
	// OwnSessions: sessions end with this process, and no other process sees them.
	OwnSessions bool
	// Start is how long a pod may take to run; 0 is two minutes.
	Start time.Duration
	Pods  Pods
}

// Pods is what all pods have.
type Pods struct {
	NodeSelector   map[string]string
	Tolerations    []Toleration
	Labels         map[string]string
	PriorityClass  string
	PullSecrets    []string
	Seccomp        string // a profile of the nodes; "" is the runtime's
	UserNamespaces bool   // each pod has one of its own, which the nodes' runtime must know
}

// Toleration is of a node's taint.
type Toleration = kube.Toleration

// Engine makes pods. It is safe for concurrent use.
type Engine struct {
	config    Config
	client    *kube.Client
	namespace string
	dir       string // of records, "" for none
	owner     proc.Owner
	links     boxlink.Table[*kube.Stream] // by the pods' UIDs
	leases    leases
	cordons   cordons
	outage    outage
	opened    time.Time
	hello     time.Duration // helloTimeout, but in tests
	askEach   time.Duration // askEach, but in tests
	known     images
	records   records
	told      func(ctx context.Context, session, record string) error // see OnSession; may be nil

	life context.Context // until Close
	end  context.CancelFunc
	all  sync.WaitGroup
}

const (
	// callTimeout is for a request.
	callTimeout = 10 * time.Second
	// startTimeout is how long a pod may take to run.
	startTimeout = 2 * time.Minute

	// CloseTime is how long Close takes at most.
	CloseTime = callTimeout
)

// Open checks what an engine needs, but does not connect. Close closes it.
func Open(config Config) (*Engine, error) {
	if config.InitImage == "" {
		return nil, sandbox.Invalid("set engine.kubernetes.image to an image of belljar that the nodes can pull", "engine.kind kubernetes needs an image of belljar, which starts the commands")
	}
	access, err := kube.Load(config.File, config.Context)
	if err != nil {
		return nil, engineError(err, "looking for a Kubernetes cluster").Hint("set KUBECONFIG or engine.kubernetes.kubeconfig; see: kubectl cluster-info")
	}
	client, err := kube.New(access)
	if err != nil {
		return nil, engineError(err, "reading %q", access.From).Hint("see: kubectl cluster-info")
	}
	e := &Engine{config: config, client: client, hello: helloTimeout, askEach: askEach, opened: time.Now(), owner: proc.ThisProcess(), namespace: cmp.Or(config.Namespace, access.Namespace, "default")}
	e.config.InitPath = cmp.Or(config.InitPath, "/belljar")
	e.config.Pull = cmp.Or(config.Pull, "IfNotPresent")
	e.config.Start = cmp.Or(config.Start, startTimeout)
	if config.Dir != "" && !config.OwnSessions {
		e.dir = filepath.Join(config.Dir, "kubernetes")
		if err = os.MkdirAll(config.Dir, 0o700); err == nil {
			err = ownfile.MakeDir(e.dir)
		}
		if err != nil {
			return nil, engineError(err, "making the engine's directory").Hint("set XDG_STATE_HOME to a writable directory")
		}
	}
	e.life, e.end = context.WithCancel(context.Background())
	e.leases.engine, e.leases.maker, e.leases.each = e, rand.Text(), renewEach
	return e, nil
}

// Host is the API server's URL.
func (e *Engine) Host() string { return e.client.Access().Server }

// Namespace is where the pods are.
func (e *Engine) Namespace() string { return e.namespace }

// Ping returns an error where pods cannot be listed now.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := e.client.Get(ctx, kube.PodsPath(e.namespace), map[string][]string{"limit": {"1"}}, nil); err != nil {
		return callError(err, "listing pods of namespace %q", e.namespace)
	}
	return nil
}

// Elsewhere reports that the cluster's nodes make the containers, and not this machine.
func (e *Engine) Elsewhere() bool { return true }

// StartTimeout is how long a pod may take to run: Create says then what it waited for.
func (e *Engine) StartTimeout() time.Duration { return e.config.Start }

// Networks are the names of the networks that a command may use.
func (e *Engine) Networks(context.Context) ([]string, error) { return []string{"none"}, nil }

// Close ends the engine, and what only this process keeps. Containers go before it; sessions stay.
func (e *Engine) Close() error {
	e.end()
	e.links.Close()
	e.all.Wait()
	err := e.leases.releaseAll()
	e.client.Close()
	return err
}

// engineError begins an error.
var engineError = failure.New
