package lockdown

import (
	"fmt"

	"belljar/sandbox"
)

// Rlimit is a resource limit under the name that `docker run --ulimit` has for it.
type Rlimit struct {
	Name       string
	Soft, Hard int64
}

// Unlimited is a limit that is none.
const Unlimited = -1

// Rlimits are those of every process.
func Rlimits(l sandbox.Limits) []Rlimit {
	return []Rlimit{{"core", 0, 0}, {"nofile", l.Files, l.Files}, {"fsize", MaxFile, MaxFile}}
}

// What a process has of resources that the kernel counts for the user who made a user namespace, too: a small part, as
// that user has other containers, and processes of the host.
const (
	someQueues  = 200 << 10 // bytes of message queues; the kernel gives a user 800 KiB
	someSignals = 4 << 10   // pending ones, and timers
)

// OtherRlimits are all others, so that none comes from who starts belljar. It takes rights to raise a limit.
//
// What the kernel counts for a user, it counts for that user's processes in all containers together: a limit would
// let one container use it up for the others. So there is none where the container's control group bounds the same:
// processes by their number, and message queues and pending signals by their memory. A user namespace has counts of its own.
func OtherRlimits(kernel string, userns bool) []Rlimit {
	const some = 8 << 20 // the kernel's default
	list := []Rlimit{
		{"as", Unlimited, Unlimited}, {"cpu", Unlimited, Unlimited}, {"data", Unlimited, Unlimited}, {"locks", Unlimited, Unlimited},
		{"memlock", some, some}, {"nice", 0, 0}, {"nproc", Unlimited, Unlimited}, {"rss", Unlimited, Unlimited},
		{"rtprio", 0, 0}, {"rttime", Unlimited, Unlimited}, {"stack", some, Unlimited},
	}
	switch {
	case userns:
		list = append(list, Rlimit{"msgqueue", someQueues, someQueues}, Rlimit{"sigpending", someSignals, someSignals})
	case chargesSignals(kernel):
		list = append(list, Rlimit{"msgqueue", Unlimited, Unlimited}, Rlimit{"sigpending", Unlimited, Unlimited})
	default: // no one would bound pending signals
		list = append(list, Rlimit{"msgqueue", Unlimited, Unlimited})
	}
	return list
}

// chargesSignals reports whether the kernel of that release charges pending signals and timers to the control group: since 5.15.
func chargesSignals(release string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 15)
}
