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
	told := make(chan bool, 100)
	var all sync.WaitGroup
	all.Go(func() { store.Watch(ctx, func(watching bool) { told <- watching }) })
	if !<-told {
		t.Error("not watching")
	}
	for len(told) > 0 { // what other tests did in this second
		<-told
	}
	if err := docker.ImageTag(t.Context(), base.ID, uniqueName(t, docker)); err != nil {
		t.Fatal(err)
	}
	if !<-told {
		t.Error("a change ended it")
	}
	stop()
	all.Wait()
}

// TestWatchFails: an engine without events is said to be unwatched.
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
		t.Errorf("watching: %v, told %d times", last, count)
	}
}
