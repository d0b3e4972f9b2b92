package kubernetes

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/kube"
	"belljar/sandbox/internal/lockdown"

	"golang.org/x/sys/unix"
)

// counter has the last counts: the init's look at its control group, which goes with the pod.
type counter struct {
	mu   sync.Mutex
	last sandbox.Counters
	read bool // there are any
}

// files are what a container sees of its control group, with version 2 and with version 1.
var groupFiles = []string{
	"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.peak", "/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/io.stat",
	"/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory/memory.max_usage_in_bytes", "/sys/fs/cgroup/cpuacct/cpuacct.usage",
	"/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes",
}

// parseGroup reads those files.
func parseGroup(texts []string) (c sandbox.Counters, read bool) {
	if texts[0] != "" {
		c.OOMKills, c.PidsLimitHits = int(keyed(texts[0], "oom_kill")), int(keyed(texts[3], "max"))
		c.MaxMemoryBytes, c.CPUSeconds = number(texts[1]), float64(keyed(texts[2], "usage_usec"))/1e6
		for field := range strings.FieldsSeq(texts[4]) {
			if name, value, _ := strings.Cut(field, "="); name == "rbytes" || name == "wbytes" {
				c.IOBytes += number(value)
			}
		}
		return c, true
	}
	c.OOMKills, c.PidsLimitHits = int(keyed(texts[5], "oom_kill")), int(keyed(texts[8], "max"))
	c.MaxMemoryBytes, c.CPUSeconds = number(texts[6]), float64(number(texts[7]))/1e9
	c.IOBytes = keyed(texts[9], "Total")
	return c, texts[5] != ""
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return max(0, n)
}

// keyed is one number of lines "key number".
func keyed(text, key string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			return number(rest)
		}
	}
	return 0
}

// count reads what there is now, with one wait for the init's answers, and reports whether it could.
func (b *box) count(ctx context.Context, l *link) bool {
	var spaces []boxlink.Space
	var other sync.WaitGroup
	other.Go(func() { spaces, _ = l.Spaces(ctx, b.memoryDirs()) })
	texts, err := l.Texts(ctx, groupFiles...)
	other.Wait()
	return err == nil && b.counted(texts, spaces)
}

// memoryDirs are the writable directories.
func (b *box) memoryDirs() []string { return append(lockdown.WritableDirs(b.spec), "/dev/shm") }

// counted takes the texts of groupFiles, and what is left in memoryDirs; nil where that is not known. It reports whether the texts say
// anything.
func (b *box) counted(texts []string, spaces []boxlink.Space) (read bool) {
	now, read := parseGroup(texts)
	b.counter.mu.Lock()
	defer b.counter.mu.Unlock()
	last := &b.counter.last
	b.counter.read = b.counter.read || read
	if now.OOMKills > 0 && now.OOMKills >= last.OOMKills {
		last.OOMPeak = now.MaxMemoryBytes
	}
	last.OOMKills, last.PidsLimitHits = max(last.OOMKills, now.OOMKills), max(last.PidsLimitHits, now.PidsLimitHits)
	last.MaxMemoryBytes, last.CPUSeconds = max(last.MaxMemoryBytes, now.MaxMemoryBytes), max(last.CPUSeconds, now.CPUSeconds)
	last.IOBytes = max(last.IOBytes, now.IOBytes)
	if spaces == nil || b.ending.Load() { // what is full after the end says nothing of the command
		return read
	}
	last.DiskFull = nil
	for i, dir := range b.memoryDirs() {
		if s := spaces[i]; s.Type == unix.TMPFS_MAGIC && (s.FreeBlocks == 0 || s.FreeInodes == 0) {
			last.DiskFull = append(last.DiskFull, dir)
		}
	}
	return read
}

// Counters implements sandbox.Container. What was read before, perhaps for another command, is an answer only where the pod has ended
// since.
func (b *box) Counters(ctx context.Context) (c sandbox.Counters, err error) {
	read := false
	if l, err := b.attached(ctx); err == nil {
		read = b.count(ctx, l)
		l.Release()
	}
	if c = b.counters(); !read && c.Source == "cgroup" && !b.ending.Load() {
		c.Source, c.DiskFull = "", nil
	}
	return c, nil
}

// counters are the last counts, with what the pod's status says.
func (b *box) counters() sandbox.Counters {
	b.counter.mu.Lock()
	c, read := b.counter.last, b.counter.read
	b.counter.mu.Unlock()
	var sources []string
	if read {
		sources = append(sources, "cgroup")
	}
	b.finding.Lock()
	ended := b.ended
	b.finding.Unlock()
	if ended != nil && ended.known {
		sources = append(sources, "pod")
		c.KilledBy = "outside"
		switch {
		case ended.oom:
			// The init read the counts, so that its own kill is in none: they are those of earlier commands, too.
			c.OOMKills, c.OOMPeak, c.KilledBy = c.OOMKills+1, 0, ""
		case ended.late:
			c.KilledBy = "belljar"
		}
	}
	c.Source = strings.Join(sources, ",")
	return c
}

// killed is the exit status of a process that SIGKILL ended.
const killed = 128 + 9

// statusWithoutInit is the exit status of a process whose init is not reached any more.
func (b *box) statusWithoutInit(of *link) (int, error) {
	if b.ending.Load() {
		return killed, nil
	}
	f := b.findFate(of)
	switch {
	case b.ending.Load(), f.oom:
		return killed, nil
	case f.reason != "":
		return 0, engineError(nil, "the pod ended while the command ran: %s", f.reason).As(sandbox.CauseEngineLost).Hint(f.again("partial output kept; run it again"))
	case f.known:
		return 0, engineError(nil, "another program deleted the pod: the exit status is unknown").As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
	case f.noNode:
		return 0, engineError(nil, "the pod's node does not answer: the exit status is unknown").As(sandbox.CauseEngineLost).Hint(nodeHint)
	case f.silent:
		return 0, engineError(nil, "the connection to the pod broke, and the API server does not answer: the exit status is unknown").
			As(sandbox.CauseEngineLost).Hint("partial output kept; see: belljar doctor")
	case errors.Is(of.Err(), boxlink.ErrUnanswered):
		return 0, engineError(nil, "the pod's init stopped answering: the exit status is unknown").As(sandbox.CauseEngineLost).Hint(nodeHint)
	}
	return 0, engineError(nil, "the connection to the pod broke: the exit status is unknown").As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
}

const nodeHint = "its node may be lost: kubectl get nodes; partial output kept"

// findFate asks how the pod ended, once for all who want to know: a link broke. Where another one breaks of a pod that had not ended, it
// asks again.
func (b *box) findFate(of *link) fate {
	b.finding.Lock()
	defer b.finding.Unlock()
	if b.ended == nil || !b.ended.known && b.endedOf != of {
		f := b.askFate()
		b.ended, b.endedOf = &f, of
	}
	return *b.ended
}

const (
	// fateTimeout is how long a kubelet may take to say how a container ended.
	fateTimeout = 6 * time.Second
	// fatePause is before it is asked again, and twice as long each time, up to fatePauseMost: all commands of a node may ask at once.
	fatePause, fatePauseMost = 150 * time.Millisecond, time.Second
)

// askFate goes on where this handle is closed: what it started may still be waited for.
func (b *box) askFate() (f fate) {
	ctx, cancel := context.WithTimeout(b.removal, fateTimeout)
	defer cancel()
	defer context.AfterFunc(b.engine.life, cancel)()
	answered := false
	for pause := fatePause; ; pause = min(2*pause, fatePauseMost) {
		var pod kube.Pod
		err := b.engine.client.Get(ctx, kube.PodPath(b.engine.namespace, b.record.Name), nil, &pod)
		switch {
		case kube.CodeOf(err) == 404 || err == nil && pod.Metadata.UID != b.record.UID:
			return fate{known: true, reason: f.reason, oom: f.oom, late: f.late}
		case err == nil:
			// A pod that is being deleted, or evicted, may say more later: how its container ended.
			if f = b.fateOf(&pod); f.known && statusOf(pod.Status.ContainerStatuses, mainContainer).State.Terminated != nil {
				return f
			}
			answered = true
		case ctx.Err() == nil, !answered && errors.Is(ctx.Err(), context.DeadlineExceeded):
			f.silent = true
		}
		after, _ := again(err)
		select {
		case <-time.After(max(pause, after)):
		case <-ctx.Done():
			return f
		}
	}
}
