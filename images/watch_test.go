package images

import (
	"context"
	"sync"
	"testing"
)

// TestWatch: a name that means another image is reported.
func TestWatch(t *testing.T) {
	store, docker := realEngine(t)
	base, err := store.BuildBase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	reported := make(chan bool, 100)
	var all sync.WaitGroup
	all.Go(func() { store.Watch(ctx, func(watching bool) { reported <- watching }) })
	if !<-reported {
		t.Error("not watching")
	}
	for len(reported) > 0 { // events of other tests in the same second
		<-reported
	}
	if err := docker.ImageTag(t.Context(), base.ID, uniqueName(t, docker)); err != nil {
		t.Fatal(err)
	}
	if !<-reported {
		t.Error("a change ended it")
	}
	stop()
	all.Wait()
}

// TestWatchFails: an engine without events is reported as unwatched.
func TestWatchFails(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var last bool
	count := 0
	store := &Store{Client: &fakeEngine{}}
	store.Watch(ctx, func(watching bool) {
		if last = watching; !watching {
			count++
			stop()
		}
	})
	if last || count != 1 {
		t.Errorf("watching: %v, reported %d times", last, count)
	}
}
