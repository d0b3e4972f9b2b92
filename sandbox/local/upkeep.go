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
	"belljar/sandbox/internal/spool"
)

const (
	// removeTries is how often belljar tries to remove a container in the background,
	// with a pause that begins with removePause and doubles.
	removeTries = 6
	removePause = time.Second

	// mostMakers is how many warm containers are made at once, at most: by other machines, where each takes a second or more, of
	// which next to nothing is this one's work.
	mostMakers = 16
)

// upkeep is the background work: it keeps containers warm, and
// removes used ones.
type upkeep struct {
	engine    sandbox.Engine
	images    *imageCache
	users     users
	files     imageModes
	log       *slog.Logger
	spares    *spool.Spares
	makers    chan struct{} // one slot for each warm container that is being made
	elsewhere bool          // they are made on other machines
	create    time.Duration // bounds how long one may take to be made and started
	hungry    hungry
	summaries chan struct{}   // one slot for each program on this host that summarizes an output
	fetches   chan struct{}   // one slot for each program that fetches a secret
	cold      atomic.Int32    // commands that make their own container: pools hold back
	running   atomic.Int32    // commands
	ctx       context.Context // cancelled by Close, after which nothing is retried
	close     context.CancelFunc
	all       sync.WaitGroup // all background work
}

func newUpkeep(engine sandbox.Engine, images sandbox.Images, log *slog.Logger) *upkeep {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// Warm containers are made on half of the processors, so that running
	// commands have the rest.
	most := max(1, runtime.NumCPU()/2)
	where, says := engine.(interface{ Elsewhere() bool })
	elsewhere := says && where.Elsewhere()
	if elsewhere {
		most = mostMakers
	}
	makers := make(chan struct{}, most)
	create := createTimeout
	if waits, says := engine.(interface{ StartTimeout() time.Duration }); says {
		create += waits.StartTimeout() // so that the engine says why one did not start in time
	}
	ctx, stop := context.WithCancel(context.Background())
	return &upkeep{
		engine: engine, images: &imageCache{Images: images}, log: log, makers: makers, elsewhere: elsewhere, create: create,
		summaries: make(chan struct{}, runtime.NumCPU()), fetches: make(chan struct{}, 4*runtime.NumCPU()),
		ctx: ctx, close: stop,
	}
}

// yield waits while commands are busy, those that make their own containers and others, but not for ever: a steady stream of them is
// what a pool is for.
func (h *upkeep) yield(ctx context.Context, cold, warm time.Duration) {
	if h.elsewhere {
		cold, warm = 0, min(warm, yieldElsewhere)
	}
	for begun := time.Now(); ; {
		waited := time.Since(begun)
		if (h.cold.Load() == 0 || waited >= cold) && (h.running.Load() == 0 || waited >= warm) {
			return
		}
		select {
		case <-time.After(yieldPause):
		case <-ctx.Done():
			return
		}
	}
}

// discard removes a container in the background, and joins its gate.
func (h *upkeep) discard(box sandbox.Container, gate *gate.Gate) {
	h.all.Go(func() {
		h.yield(h.ctx, 0, yieldElsewhere)
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
			h.hungry.roomAgain()
			return
		}
		h.log.Warn("removing a container failed", "container", box.Info().ID, "error", err)
		if last || try == removeTries {
			return
		}
		select {
		case <-time.After(pause):
		case <-h.ctx.Done():
			last = true // the last try
		}
		pause *= 2
	}
}
