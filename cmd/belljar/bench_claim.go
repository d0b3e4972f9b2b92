package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/sandbox/kubernetes"
)

// claimPoll is between two looks whether agent-sandbox's pool is at rest.
const claimPoll = 50 * time.Millisecond

// benchClaim measures a pool of pods beside one of agent-sandbox's of the same size, both at rest: until there is a pod, or, if whole,
// until a command in it has ended. What lets the pod go then is in neither side's time.
func benchClaim(whole bool) func(context.Context, *bench) (benchRow, error) {
	return func(ctx context.Context, b *bench) (row benchRow, err error) {
		size := b.pool()
		claims, err := b.host.Engine.(*kubernetes.Engine).NewClaims(ctx, b.spec(peerLife(b.count)), size.Min)
		if err != nil {
			return row, err
		}
		defer func() { err = errors.Join(err, claims.Close(ctx)) }()
		l := b.local(size)
		defer l.Close()
		l.Warm()
		var last string
		rested := func(do side) side {
			return func(ctx context.Context) (time.Duration, error) {
				if err := restClaims(ctx, claims); err != nil {
					return 0, err
				}
				if err := b.rest(ctx, l, last); err != nil {
					return 0, err
				}
				return do(ctx)
			}
		}
		ours := func(ctx context.Context) (time.Duration, error) {
			took, start, err := inWarm(ctx, l, &last)
			if !whole {
				took = start
			}
			return took, err
		}
		theirs := func(ctx context.Context) (took time.Duration, err error) {
			ctx, cancel := context.WithTimeout(ctx, restTimeout)
			defer cancel()
			begun := time.Now()
			claim, err := claims.Take(ctx)
			took = time.Since(begun)
			if err == nil && whole {
				_, err = wholeProcess(b.kubectl.exec(claim.Pod, trivial))(ctx)
				took = time.Since(begun)
			}
			return took, errors.Join(err, claims.Release(ctx, claim))
		}
		peer := "claim Ready"
		if whole {
			peer = "claim, exec"
		}
		a, t, err := alternate(ctx, b.count, rested(ours), rested(theirs))
		return newBenchRow(peer, a, t), err
	}
}

// restClaims waits until agent-sandbox's pool is at rest.
func restClaims(ctx context.Context, claims *kubernetes.Claims) error {
	for begun := time.Now(); ; {
		if rested, err := claims.Rested(ctx); rested || err != nil {
			return err
		}
		if time.Since(begun) > restTimeout {
			return fmt.Errorf("agent-sandbox's pool did not come to rest within %v: see whether its controller runs: kubectl get sandboxwarmpools", restTimeout)
		}
		if err := pause(ctx, claimPoll); err != nil {
			return err
		}
	}
}
