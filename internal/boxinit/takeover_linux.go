package boxinit

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// init makes this program the container's init, if it is its first process.
func init() {
	switch {
	case os.Getpid() != 1:
	case len(os.Args) > 0 && os.Args[0] == Path:
		run(os.Args[1:])
	case len(os.Args) == 3 && os.Args[1] == CopyArg:
		copySelf(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == TryArg:
		try(os.Args[2], os.Args[3])
	}
}

// failed is the exit status of an init that cannot begin.
const failed = 125

// run is on the main thread, which belongs to the goroutine that initialises packages.
func run(args []string) {
	config, ok := parseArgs(args)
	if !ok {
		die("its arguments are wrong", 0)
	}
	if !config.Alone && isTraceable() {
		die("the host's kernel lets processes trace others that change their user: sysctl fs.suid_dumpable=2 ends that", 0)
	}
	runtime.LockOSThread()
	setGCPercent(-1)
	runtime.GOMAXPROCS(processors)
	closeOnExec()
	score := openScore()
	settle := func() (string, syscall.Errno) { return become(config.UID, config.Root) }
	if config.Alone {
		settle = config.stayAlone
	}
	if step, errno := settle(); errno != 0 {
		die(step, errno)
	}
	makeThreads(spareThreads)
	time.Sleep(time.Nanosecond) // with its first timer Go opens files, and it would crash where no more may be open
	w := &worker{uid: config.UID, root: config.Root, alone: config.Alone, score: score, files: commandFiles(), jobs: make(chan job, 1), results: make(chan result, 1)}
	l, err := newLoop(config, w)
	if err != nil {
		die("opening its connection", errnoOf(err))
	}
	heed()
	notify(l.wake.ring, config.reached())
	if config.reached() {
		if errno := withstand(); errno != 0 {
			die("handling signals", errno)
		}
	}
	go func() {
		if config.reached() {
			block()
		}
		l.run()
	}()
	for job := range w.jobs {
		w.results <- w.do(job)
		l.wake.ring()
	}
}

// ownFiles are those that the init must be able to open at any time, to list and to signal.
const ownFiles = 6

// commandFiles is how many files may be open after a command's and clients' are.
func commandFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1<<31 - 1
	}
	return int(min(limit.Cur, 1<<31-1)) - ownFiles
}

func die(why string, errno syscall.Errno) {
	text := "belljar-init: " + why
	if errno != 0 {
		text += ": " + errno.Error()
	}
	syscall.Write(2, []byte(text+"\n"))
	syscall.Exit(failed)
}

const (
	// processors is how many threads run Go code at once: the loop and the main thread.
	processors = 2
	// spareThreads are made before there are commands, and kept by Go for later. Besides
	// them there are the main one, sysmon and the one that makes threads.
	spareThreads = 6
)

// makeThreads makes n threads that stay: Go keeps the thread of a goroutine that ended
// without its lock.
func makeThreads(n int) {
	var made, ended sync.WaitGroup
	made.Add(n)
	done := make(chan struct{})
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			made.Done()
			<-done
		})
	}
	made.Wait()
	close(done)
	ended.Wait()
}
