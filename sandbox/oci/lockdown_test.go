package oci_test

import (
	"bytes"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"belljar/images"
	"belljar/sandbox"
	"belljar/sandbox/docker"

	"github.com/google/go-cmp/cmp"
)

// inside is a container whose inside is looked at.
type inside struct {
	box  sandbox.Container
	user sandbox.User
}

func enter(t *testing.T, engine sandbox.Engine, spec sandbox.Spec) inside {
	t.Helper()
	box, err := engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return inside{box, spec.User}
}

// run is what a script writes to its two streams, and its exit status.
func (c inside) run(t *testing.T, script string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: "exec 2>&1; " + script, Dir: "/work", User: c.user, Env: []string{"PATH=/bin"}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	status, err := p.Wait(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out.String()), status
}

// check is a line of the lock-down: a script, and what it must say.
type check struct{ script, want string }

func (c inside) wants(t *testing.T, checks ...check) {
	t.Helper()
	for _, check := range checks {
		if got, _ := c.run(t, check.script); !regexp.MustCompile(`^(?s:` + check.want + `)$`).MatchString(got) {
			t.Errorf("%s\nsays  %q\nwants %q", check.script, got, check.want)
		}
	}
}

// facts are what a container's lock-down looks like to a command. They are the same
// whatever engine made it.
var facts = map[string]string{
	"status":         `grep -E '^(Uid|Gid|Cap|NoNewPrivs|Seccomp|Groups|Umask|SigBlk)' /proc/self/status`,
	"limits":         `sed 's/  */ /g' /proc/self/limits | grep -v 'Max pending signals'`,
	"masked":         `for f in acpi asound kcore keys latency_stats timer_list timer_stats sched_debug scsi interrupts; do echo $f $(cat /proc/$f 2>&1 | head -c 20) $(ls -A /proc/$f 2>/dev/null | head -3); done 2>&1 | sed "s/cat: .*:/cat:/"; ls -A /sys/firmware /sys/devices/virtual/powercap 2>&1`,
	"read-only":      `for d in bus fs irq sys sysrq-trigger; do grep " /proc/$d " /proc/mounts | grep -o ' ro,' || echo $d; done`,
	"proc":           `ls /proc | grep -v '^[0-9]'`,
	"writable":       `sort -u /proc/mounts | while read _ d _; do (: > $d/x.$$) 2>/dev/null && rm $d/x.$$ && echo $d; done | sort -u`,
	"files":          `for f in $(find / -xdev 2>/dev/null | grep -v -e ^/proc -e ^/sys -e ^/dev/belljar-init -e ^/sbin -e ^/bin/ -e ^/dev/core -e ^/dev/console -e ^/.dockerenv -e '^/etc/\(mtab\|resolv.conf\|hostname\)'); do test -w $f && echo w $f; echo $f; done | sort`,
	"tmpfs":          `grep -E ' /(tmp|work|dev/shm) ' /proc/mounts | cut -d' ' -f2-4 | sed 's|^\(/dev/shm .*\),nr_inodes=[^,]*|\1|' | sort`,
	"network":        `cat /etc/hosts; sed 1,2d /proc/net/dev | cut -d: -f1; sed 1d /proc/net/route; ip addr show lo | grep -E 'inet|UP' | head -2`,
	"denied":         `unshare -Ur id; mount -t tmpfs x /tmp; mknod /tmp/disk b 8 0; echo x > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger; touch /x /bin/x`,
	"not writable":   `for f in $(find /sys /proc/sys -type f 2>/dev/null | head -3000); do test -w $f && echo $f; done | head -3`,
	"environment":    `env -u HOSTNAME -u PATH | grep -v ^_= | sort`,
	"directory, ids": `pwd; id -u; id -g; umask; ls -l /proc/self/fd 2>/dev/null | grep -c -v -E 'total|/proc'`,
	"memory":         `cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null`,
	"processor":      `cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null`,
	"cgroup":         `cut -d: -f2- /proc/self/cgroup | grep -v '^:' | sort`,
	"propagation":    `grep -c -e shared: -e propagate_from: /proc/self/mountinfo`,
}

func (c inside) facts(t *testing.T) map[string]string {
	all := map[string]string{}
	for name, script := range facts {
		all[name], _ = c.run(t, script)
	}
	return all
}

// The lock-down is Docker's: all that a command can see of it is the same.
func TestLockdownIsDockers(t *testing.T) {
	with, err := docker.Connect(t.Context(), "")
	if err != nil {
		t.Skipf("NO DOCKER TO COMPARE WITH, NOT TESTED: %v", err)
	}
	with.Dir = t.TempDir()
	t.Cleanup(func() { with.Close() })
	spec := specOf(t)
	spec.Image, err = (&images.Store{Client: with.Client()}).Resolve(t.Context(), "belljar/base", sandbox.PullMissing)
	if err != nil {
		t.Fatal(err)
	}
	theirs := enter(t, with, spec).facts(t)
	each(t, func(t *testing.T, runtime string) {
		ours := enter(t, open(t, runtime), specOf(t)).facts(t)
		for _, name := range slices.Sorted(maps.Keys(theirs)) {
			if diff := cmp.Diff(strings.Split(theirs[name], "\n"), strings.Split(ours[name], "\n")); diff != "" {
				t.Errorf("%s: with Docker, and here: %s", name, diff)
			}
		}
	})
}

// What only our own init adds.
func TestInitIsOutOfReach(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		c := enter(t, open(t, runtime), specOf(t))
		c.wants(t,
			check{`tr '\000' ' ' < /proc/1/cmdline`, "/dev/belljar-init .*"},
			check{"kill -0 1 || kill -STOP 1 || kill -9 1", "(.*Operation not permitted\n?){3}"},
			check{"cat /proc/1/environ; ls /proc/1/root/ /proc/1/cwd/; cat /proc/1/fd/0; cat /proc/1/maps /proc/1/mem", "(.*[Pp]ermission denied\n?){6}"},
			check{"echo x > /proc/1/oom_score_adj; echo x > /dev/belljar-init; rm /dev/belljar-init", "(.*([Pp]ermission denied|Read-only|busy|not permitted).*\n?){3}"},
			check{"/dev/belljar-init socket 1 0 </dev/null; kill -9 -1; kill -STOP -1; echo still", ".*still.*"},
			// While it starts a command, the init has the command's score.
			check{"a=$(cat /proc/1/oom_score_adj) b=$(cat /proc/self/oom_score_adj); test $a -ge 500 && test $b -gt 500 && test $b -ge $a && echo the host survives first, then the init", "the host survives first, then the init"},
			check{"ls /proc | grep -c '^[0-9]'", "[3-6]"},
			check{"find / -type s 2>/dev/null", ""},
		)
	})
}
