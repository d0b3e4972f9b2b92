package local

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

const (
	// removeTries is how often a container is removed that nobody waits for,
	// with a pause that begins with removePause and doubles.
	removeTries = 6
	removePause = time.Second
)

// upkeep is what goes on in the background: containers are kept warm, and
// removed when nobody waits for that.
type upkeep struct {
	engine    sandbox.Engine
	images    *imageCache
	users     users
	log       *slog.Logger
	makers    chan struct{}   // one for each warm container that is being made
	summaries chan struct{}   // one for each program on this host that reads an output
	fetches   chan struct{}   // one for each that tells a secret
	cold      atomic.Int32    // commands that make their own: pools hold back
	running   atomic.Int32    // commands
	ctx       context.Context // cancelled by Close, after which nothing is tried again
	close     context.CancelFunc
	all       sync.WaitGroup // everything that goes on
}

func newUpkeep(engine sandbox.Engine, images sandbox.Images, log *slog.Logger) *upkeep {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// Warm containers are made by a part of the processors, so that running
	// commands have the rest.
	makers := make(chan struct{}, max(1, runtime.NumCPU()/2))
	ctx, stop := context.WithCancel(context.Background())
	return &upkeep{
		engine: engine, images: &imageCache{Images: images}, log: log, makers: makers,
		summaries: make(chan struct{}, runtime.NumCPU()), fetches: make(chan struct{}, 4*runtime.NumCPU()),
		ctx: ctx, close: stop,
	}
}

// discard removes a container that nobody waits for, and joins its gate.
func (h *upkeep) discard(box sandbox.Container, gate *gate.Gate) {
	h.all.Go(func() {
		h.remove(box)
		if gate != nil {
			gate.Join()
		}
	})
}

func (h *upkeep) remove(box sandbox.Container) {
	last, pause := false, removePause
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
		err := box.Remove(ctx)
		cancel()
		if err == nil {
			return
		}
		h.log.Warn("removing a container failed", "container", box.Info().ID, "error", err)
		if last || try == removeTries {
			return
		}
		select {
		case <-time.After(pause):
		case <-h.ctx.Done():
			last = true // there is no later
		}
		pause *= 2
	}
}
