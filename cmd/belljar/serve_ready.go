package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/sandbox"
)

// ready says why this sidecar should get no requests now. Once it was ready, its pools do not count: what runs here, and what would
// make room for a pool again, can only be asked for here.
func (s *sidecar) ready(ctx context.Context) error {
	if s.book.Draining() {
		return errors.New("the sidecar is shutting down")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.runner.Host.Ping(ctx); err != nil {
		return fmt.Errorf("the engine does not answer: %w", err)
	}
	if s.begun.Load() {
		return nil
	}
	pools, err := s.runner.Pools(ctx)
	if err == nil {
		err = beginning(pools)
	}
	s.begun.Store(err == nil)
	return err
}

// beginning says why a sidecar that has just started cannot make containers: so a rollout with an image that does not start stops.
// Where there is no room for one it goes on, as the sidecars before it may have all of it. Only the default profile counts: another one
// has a pool once it is used.
func beginning(pools []sandbox.PoolStatus) error {
	for _, p := range pools {
		if p.Profile != sandbox.DefaultProfile || p.Target == 0 || p.Made > 0 || p.Cause == sandbox.CauseBusy {
			continue
		}
		if p.Error == "" {
			return fmt.Errorf("the pool of profile %q makes its first container", p.Profile)
		}
		return fmt.Errorf("the pool of profile %q cannot make its first container: %s", p.Profile, p.Error)
	}
	return nil
}
