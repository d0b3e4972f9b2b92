package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/sandbox"
)

// readyPoll is how often Ready checks whether the pool is full. To make one container
// takes some hundred milliseconds.
const readyPoll = 10 * time.Millisecond

// Ready warms the Local, if Warm has not, and waits until the default profile's
// pool is full: the next commands then start in milliseconds. Where the profile
// has no pool, it returns at once. The error says why the pool cannot be
// filled now. The Local tries again later all the same, and so may the caller.
func (l *Local) Ready(ctx context.Context) error {
	l.Warm()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		pool := l.pool(sandbox.DefaultProfile)
		if pool == nil {
			return nil
		}
		if l.upkeep.ctx.Err() != nil {
			return errors.New("the runner is closed")
		}
		s := pool.snapshot()
		if s.Ready >= s.Target {
			return nil
		}
		if s.Error != "" {
			return fmt.Errorf("filling the pool of profile %q: %d of %d containers are ready: %s", s.Profile, s.Ready, s.Target, s.Error)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the pool of profile %q: %d of %d containers are ready: %w", s.Profile, s.Ready, s.Target, ctx.Err())
		}
	}
}
