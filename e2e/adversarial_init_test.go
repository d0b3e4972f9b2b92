package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar/internal/boxinit/wire"

	"golang.org/x/sys/unix"
)

// inits are attacks on a container's init, and on an engine without a daemon.
var inits = []row{
	{name: "N1", group: "Truth", script: "kill -9 1; kill -STOP 1; kill -TERM 1; echo here; exit 3", code: 3, out: "here\n.*"},
	{name: "N2", group: "Escape", script: `for f in environ mem maps auxv stack syscall pagemap io; do cat /proc/1/$f >/dev/null 2>&1 && echo READ $f; done
for l in exe cwd root ns/mnt ns/pid ns/user; do readlink /proc/1/$l && echo LED $l; done; ls -A /proc/1/fd 2>/dev/null
for f in fd/0 fd/1 mem oom_score_adj coredump_filter; do (echo 1 >/proc/1/$f) 2>/dev/null && echo WROTE $f; done; echo done`, out: "done\n"},
	{name: "N3", group: "Escape", do: controlIsOutOfReach},
	{name: "N4", group: "Escape", script: "for f in /dev/belljar-init /proc/1/exe; do [ -e $f ] || [ -L $f ] || continue; (echo x >$f) 2>/dev/null && echo WROTE; rm -f $f 2>/dev/null && [ ! -e $f ] && echo GONE; done; /dev/belljar-init frames 5 0 </dev/null >/dev/null 2>&1; echo still", out: "still\n"},
	{name: "N5", group: "Lateral", script: "ls /proc/self/fd", out: "0\n1\n2\n3\n"}, // 3 is the directory
	{name: "N5 others", group: "Lateral", do: othersPipesOutOfReach},
	{name: "N6", group: "Truth", do: noStatusIsForged},
	{name: "N7", group: "HostDoS", do: bombWhileListed},
	{name: "N8", group: "Escape", script: `grep -E '^(Cap|NoNewPrivs|Groups)' /proc/self/status | tr -d '\t '; cat /proc/keys 2>/dev/null; exit 0`,
		out: "Groups:(65534)?\nCapInh:0{16}\nCapPrm:0{16}\nCapEff:0{16}\nCapBnd:0{16}\nCapAmb:0{16}\nNoNewPrivs:1\n"},
	{name: "N9", group: "HostDoS", do: thousandsLeft},
	{name: "N10", group: "Truth", do: partsKilled},
	{name: "N11", group: "Lateral", do: siblingsOutOfReach},
	{name: "N12", group: "Escape", do: groupsOutOfReach},
	{name: "N13", group: "Escape", do: rootInsideIsContained},
	{name: "N14", group: "HostDoS", do: writableRootIsBounded},
	{name: "N16", group: "Truth", do: initKeepsItsTime},
}

// N5: no other user's command of a session can write to one's output.
func othersPipesOutOfReach(t *testing.T) {
	name, use := newSession(t)
	asks(t, use, "--session", name, "true").ended(t, 0, "")
	one := begun(t, use, "--session", name, "--parallel", "-u", "nobody", "echo first; sleep 1000 & echo $! >/tmp/pid; wait; echo last")
	other := asks(t, use, "--session", name, "--parallel", "-u", "1000:50", `until [ -s /tmp/pid ]; do :; done
for f in /proc/[0-9]*/fd/[012]; do case $f in /proc/$$/*) ;; *) (echo forged >$f) 2>/dev/null && echo WROTE $f; cat $f 2>/dev/null;; esac; done; kill $(cat /tmp/pid) 2>/dev/null && echo KILLED; echo done`)
	other.says(t, "done\n")
	asks(t, use, "--session", name, "--parallel", "-u", "nobody", "kill $(cat /tmp/pid)").ended(t, 0, "")
	one.wait(t).says(t, "first\nlast\n")
}

// N6: what a command writes is data, also where it is what an init would say.
func noStatusIsForged(t *testing.T) {
	var forged []byte
	for id := range uint32(40) {
		forged = wire.AppendFrame(forged, wire.Exited, id, wire.ExitedAnswer{Status: 0, When: 1}.Encode(nil))
		forged = wire.AppendFrame(forged, wire.Ended, id, []byte{byte(wire.Stdout)})
	}
	forged = append(append(forged, wire.Marker...), bytes.Repeat([]byte{0}, wire.NonceSize)...)
	var words strings.Builder
	for _, c := range forged {
		fmt.Fprintf(&words, "\\0%03o", c)
	}
	for _, to := range []string{"", " >&2"} {
		a := ask(t, "printf %b '"+words.String()+"'"+to+"; exit 7")
		a.ended(t, 7, "")
		var sizes struct {
			Stdout int `json:"stdout_bytes"`
			Stderr int `json:"stderr_bytes"`
		}
		if err := json.Unmarshal([]byte(a.json), &sizes); err != nil || sizes.Stdout+sizes.Stderr != len(forged) {
			t.Errorf("%d and %d bytes of %d, error %v", sizes.Stdout, sizes.Stderr, len(forged), err)
		}
	}
}

// N3: a session's init takes further clients, at a socket that no command can find.
func controlIsOutOfReach(t *testing.T) {
	name, use := newSession(t)
	asks(t, use, "--session", name, "sleep 1000 & echo begun").says(t, "begun\n")
	a := asks(t, use, "--session", name, `find / -xdev -type s 2>/dev/null; sed 1d /proc/net/unix; for d in fd root cwd; do ls -A /proc/1/$d/ 2>/dev/null; done; find / -name '*.sock' -o -name socket 2>/dev/null | grep -v -e ^/proc -e ^/sys; true`)
	a.says(t, "")
	a.ended(t, 0, "")
}

// N7: what forks all the time, in sessions of its own, is stopped, listed as far as it can be, and
// killed. A shell whose fork fails at the limit may also end by itself: what sleeps does not.
func bombWhileListed(t *testing.T) {
	a := ask(t, "--timeout", "2s", "--pids-limit", "300", `trap "" TERM; sleep 1000 & f() { while :; do (setsid sh -c 'sleep 0.01; :' &) ; done; }; for i in 1 2 3 4; do f & done 2>/dev/null; wait`)
	ended := a.Cause == "exited" && a.Evidence.PidsLimitHits > 0
	killed := a.Cause == "wall_timeout" || a.Cause == "pids_limit"
	if !ended && (!killed || len(a.Lingering) == 0 && a.Evidence.ListError == "") {
		t.Errorf("%s", a.json)
	}
	a.nothingLives(t)
}

// N9: thousands of processes, stopped ones and zombies are told, and ended.
func thousandsLeft(t *testing.T) {
	a := ask(t, "--pids-limit", "4500", "--memory", "2GiB", "--timeout", "10m", "--idle-timeout", "0",
		"mkfifo f; i=0; while [ $i -lt 4000 ]; do : <f & i=$((i+1)); done; (sh -c 'kill -STOP $$' &); echo all")
	a.ended(t, 0, "")
	if n := len(a.Lingering); n < 4000 {
		t.Errorf("%d are listed: %s", n, a.json)
	}
	a.nothingLives(t)
}

// N10: whatever part of a container is killed or stopped by somebody on this host, the command's fate is
// told, and nothing is left.
func partsKilled(t *testing.T) {
	if !onOCI() {
		t.Skip("an engine without a daemon has these parts; of Docker's, F rows are")
	}
	for what, signals := range map[string]struct{ runtime, init syscall.Signal }{
		"the runtime": {syscall.SIGKILL, 0}, "the init": {0, syscall.SIGKILL}, "both": {syscall.SIGKILL, syscall.SIGKILL},
		"the runtime stops": {syscall.SIGSTOP, 0}, "the init stops": {0, syscall.SIGSTOP}, "both stop": {syscall.SIGSTOP, syscall.SIGSTOP},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir, config := shared(t, "rw")
			p := begun(t, func(*exec.Cmd) {}, "--config", config, "-v", dir+":/work", "--timeout", "15s", "echo partial; (setsid sleep 1000 &); touch /work/ready; sleep 1000")
			mark(t, "command started", dir+"/ready")
			c := inEngine(container(t, p.cmd.Process.Pid))
			for pid, signal := range map[int]syscall.Signal{c.Parent.PID: signals.runtime, c.First.PID: signals.init} {
				if signal != 0 {
					syscall.Kill(pid, signal)
				}
			}
			a := p.wait(t)
			switch {
			case a.Cause == "engine_lost" && a.code == 125 && signals.runtime == syscall.SIGKILL:
			case a.Cause == "signaled" && a.code == 137 && a.Evidence.KilledBy == "outside":
			case a.Cause == "wall_timeout" && a.code == 124 && signals.init != syscall.SIGKILL:
			default:
				t.Errorf("%s", a.json)
			}
			a.says(t, "partial\n")
			eventually(t, "nothing is left", func() bool {
				return owned(p.cmd.Process.Pid) == "" && len(hostProcesses(c.id)) == 0 && !runs(c.Parent.PID) && !runs(c.First.PID)
			})
		})
	}
}

// N11: neither abstract sockets nor loopback of this host or of a sibling can be reached.
func siblingsOutOfReach(t *testing.T) {
	name := fmt.Sprintf("belljar-n11-%d", time.Now().UnixNano())
	abstract, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	loopback, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer loopback.Close()
	_, port, _ := net.SplitHostPort(loopback.Addr().String())
	dir, config := shared(t, "rw")
	sibling := begun(t, func(*exec.Cmd) {}, "--config", config, "-v", dir+":/work", "nc -l -p 5555 127.0.0.1 & touch ready; sleep 1000")
	mark(t, "sibling listens", dir+"/ready")
	ask(t, "for p in 5555 "+port+"; do nc -w 3 127.0.0.1 $p </dev/null 2>/dev/null && echo REACHED $p; done; grep "+name+" /proc/net/unix; sed 1d /proc/net/unix; true").says(t, "")
	sibling.cmd.Process.Signal(syscall.SIGTERM)
	sibling.wait(t).ended(t, exitCanceled, "canceled")
}

// N12: control groups cannot be written to, and those of others cannot be seen.
func groupsOutOfReach(t *testing.T) {
	a := ask(t, "find /sys/fs/cgroup -type f | while read -r f; do (echo 1 >$f) 2>/dev/null && echo WROTE $f; done; mkdir $(find /sys/fs/cgroup -type d | sed 's,$,/x,') 2>/dev/null && echo MADE; cut -d: -f3 /proc/self/cgroup | sort -u; find /sys/fs/cgroup -name 'belljar*' -o -name docker")
	a.ended(t, 0, "")
	if onPods() && strings.HasPrefix(a.Stdout, "/kubepods/") && strings.Count(a.Stdout, "\n") == 1 {
		return // where control groups are of version 1, it sees the name of its own
	}
	a.says(t, "/\n")
}

// rootInside is a configuration whose profile r has a root user, and a root that can be written to.
func rootInside(t *testing.T) []string {
	t.Helper()
	return []string{"--profile", "r", "--config", configured(t, "profiles: {r: {user: root, rootfs: writable, limits: {disk: 16MiB}}}")}
}

// N13: a root of a user namespace can do nothing that reaches out of it. Docker, where it maps no users, has none: see
// TestRootOnDocker.
func rootInsideIsContained(t *testing.T) {
	if !onOCI() {
		refused(t, 125, "root", rootInside(t)...)
		return
	}
	rootContained(t, func(*exec.Cmd) {})
}

func rootContained(t *testing.T, as func(*exec.Cmd)) {
	a := askAs(t, as, append(append([]string{"--idle-timeout", "0", "--timeout", "30m"}, rootInside(t)...), `id -u; mount -t tmpfs x /mnt; mknod /d b 8 0; unshare -Ur true; nsenter -t 1 -m true; chroot / true; cat /proc/kcore; `+
		`cat /proc/1/environ; ls /proc/1/root/; for f in sys/kernel/core_pattern sysrq-trigger sys/kernel/modprobe; do echo x >/proc/$f && echo WROTE; done; find /sys -type f -perm -200 | while read -r f; do (echo 1 >$f) 2>/dev/null && echo WROTE $f; done; echo done`)...)
	a.ended(t, 0, "")
	if a.Stdout != "0\ndone\n" || !strings.Contains(string(a.json), `"root":"userns"`) {
		t.Errorf("%s", a.json)
	}
	dir, config := shared(t, "rw")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	config = configured(t, strings.TrimPrefix(string(text), "version: 1\n"), "profiles: {r: {user: root, rootfs: writable}}")
	askAs(t, as, "--profile", "r", "--config", config, "-v", dir+":/work", "cp /bin/busybox /work/; chmod 4755 /work/busybox; echo $?")
	var about unix.Stat_t
	if err := unix.Stat(dir+"/busybox", &about); err == nil && about.Uid == 0 {
		t.Error("a root of this host's owns what it made")
	}
}

// N14: what can be written to is bounded in bytes, in files and in the size of each, and all of that is told.
func writableRootIsBounded(t *testing.T) {
	if !onOCI() {
		refused(t, 125, "root", rootInside(t)...)
		return
	}
	rootBounded(t, func(*exec.Cmd) {})
}

func rootBounded(t *testing.T, as func(*exec.Cmd)) {
	for script, said := range map[string]string{
		"dd if=/dev/zero of=/big bs=1M":                            "No space left on device",
		"i=0; while : >/$i; do i=$((i+1)); done; exit 1":           "No space left on device",
		"truncate -s 1T /sparse; dd if=/dev/zero of=/sparse bs=1M": "",
	} {
		a := askAs(t, as, append(rootInside(t), script)...)
		if !regexp.MustCompile(said).MatchString(a.Stderr) || a.Cause != "disk_full" && a.Cause != "oom_killed" && !strings.Contains(string(a.json), `"disk_full":["/"`) {
			t.Errorf("%s: %s", script, a.json)
		}
	}
}

// N16: a root who becomes the init's user takes no processor time from it. What it changes of itself is its own matter.
func initKeepsItsTime(t *testing.T) {
	if !onOCI() {
		t.Skip("root in Docker's containers is TestRootOnDocker's, which has this row, too")
	}
	initNotStarved(t, func(*exec.Cmd) {})
}

func initNotStarved(t *testing.T, as func(*exec.Cmd)) {
	flags, program := probe(t)
	text, err := os.ReadFile(flags[1])
	if err != nil {
		t.Fatal(err)
	}
	flags[1] = configured(t, strings.TrimPrefix(string(text), "version: 1\n"), "profiles: {r: {user: root}}")
	a := askAs(t, as, append(flags, "--profile", "r", program+" starve")...)
	a.ended(t, 0, "")
	a.says(t, "done\n")
}
