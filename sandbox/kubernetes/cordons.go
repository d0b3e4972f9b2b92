package kubernetes

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"belljar/sandbox/internal/kube"
)

// cordons knows which nodes are cordoned: they take no more pods, as they are being drained, most often. What waits there for a command
// would only be in the way: a node is not let go, with a PodDisruptionBudget, as long as it is there, and a command that gets it
// may run for long.
type cordons struct {
	watched sync.Once

	mu      sync.Mutex
	nodes   map[string]bool // that are cordoned
	waiting map[*box]bool   // for commands
}

// stay is a container's on its node.
type stay struct {
	node     string        // "" before it runs, and of a session that was found
	unwanted chan struct{} // see Unwanted
	leaving  sync.Once
}

// Unwanted is closed when a container that waits for a command should not do so any longer, though it could run it: its node is to be
// empty.
func (s *stay) Unwanted() <-chan struct{} { return s.unwanted }

const (
	// cordonPause is between a watch that failed and the next one, and cordonPauseLong where this user may not watch nodes, as maxDenials
	// refusals in a row say: someone may let them.
	cordonPause, cordonPauseLong, maxDenials = 10 * time.Second, 5 * time.Minute, 4
	// watchLeast is more than the API server lets a watch last.
	watchLeast = kube.WatchTime + time.Minute
)

// waits notes that a container of a pool waits for a command until it is closed.
func (e *Engine) waits(b *box) {
	if b.spec.Pool == "" || slices.ContainsFunc(e.config.Pods.Tolerations, toleratesCordons) {
		return // the next one could come to the same node
	}
	c := &e.cordons
	c.mu.Lock()
	if c.waiting == nil {
		c.waiting = map[*box]bool{}
	}
	c.waiting[b] = true
	c.leaveLocked(b)
	c.mu.Unlock()
	context.AfterFunc(b.life, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, b)
	})
	c.watched.Do(func() { e.all.Go(e.watchNodes) })
}

// toleratesCordons reports whether pods with it come to nodes that are cordoned, too.
func toleratesCordons(t Toleration) bool {
	const taint = "node.kubernetes.io/unschedulable"
	return (t.Key == taint || t.Key == "" && t.Operator == "Exists") && (t.Effect == "" || t.Effect == "NoSchedule")
}

// leaveLocked says that the container is not wanted any more, if its node is cordoned.
func (c *cordons) leaveLocked(b *box) {
	if c.nodes[b.node] {
		b.leaving.Do(func() { close(b.unwanted) })
	}
}

func (c *cordons) set(node string, cordoned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !cordoned {
		delete(c.nodes, node)
		return
	}
	if c.nodes == nil {
		c.nodes = map[string]bool{}
	}
	c.nodes[node] = true
	for b := range c.waiting {
		c.leaveLocked(b)
	}
}

// watchNodes watches those that are cordoned, until Close.
func (e *Engine) watchNodes() {
	denied := 0
	for e.life.Err() == nil {
		err := e.watchCordoned()
		if denied++; !isDenial(err) {
			denied = 0
		}
		e.cordons.mu.Lock()
		e.cordons.nodes = nil // the next watch begins with what there is
		e.cordons.mu.Unlock()
		select {
		case <-time.After(cordonPauseAfter(err, denied)):
		case <-e.life.Done():
		}
	}
}

// cordonPauseAfter is the pause after a watch, of which that many were refused in a row.
func cordonPauseAfter(err error, denied int) time.Duration {
	switch {
	case err == nil:
		return watchPause
	case denied >= maxDenials:
		return cordonPauseLong
	}
	return cordonPause
}

func (e *Engine) watchCordoned() error {
	ctx, cancel := context.WithTimeout(e.life, watchLeast) // a connection may break without a word
	defer cancel()
	return e.client.Watch(ctx, "/api/v1/nodes", "spec.unschedulable=true", "0", func(kind string, text []byte) (bool, error) {
		var node struct{ Metadata kube.Meta }
		if err := json.Unmarshal(text, &node); err != nil {
			return false, err
		}
		e.cordons.set(node.Metadata.Name, kind != "DELETED") // which is of one that is cordoned no more, too
		return false, nil
	})
}
