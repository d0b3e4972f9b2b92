package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"belljar/sandbox/docker"
)

// guardCommand is a subcommand for belljar itself only.
const guardCommand = "guard"

// guardTime is how long an engine may take to finish making a container that
// nobody waits for any more.
const guardTime = 5 * time.Second

// startGuard starts a second process, while this one goes on, that outlives it
// if it is killed while the engine makes a container. The dead man's switch does
// not hold yet then: there is no keeper. The guard goes when release is called,
// once there is one. Without it the next belljar would remove the container.
func startGuard(host string) (release func()) {
	started := make(chan func(), 1)
	go func() { started <- spawnGuard(host) }()
	return sync.OnceFunc(func() { (<-started)() })
}

func spawnGuard(host string) (release func()) {
	self, err := os.Executable()
	if err != nil {
		return func() {}
	}
	alive, hold, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	guard := exec.Command(self, guardCommand, host)
	guard.Stdin = alive
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal's signals are not for it
	err = guard.Start()
	alive.Close()
	if err != nil {
		hold.Close()
		return func() {}
	}
	return func() {
		hold.Write([]byte("done"))
		hold.Close()
		guard.Wait()
	}
}

// guard waits until the belljar that started it says that it is done, or dies
// without a word: then it sweeps up what that one left.
func guard(host string) {
	if word, err := io.ReadAll(os.Stdin); err == nil && len(word) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), guardTime)
	defer cancel()
	engine, err := docker.Connect(ctx, host)
	if err != nil {
		return
	}
	defer engine.Close()
	for ctx.Err() == nil {
		engine.Sweep(ctx) // what it cannot do the next belljar does
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
