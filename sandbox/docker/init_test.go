package docker_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar/internal/boxinit/wire"
	"belljar/sandbox"
	"belljar/sandbox/docker"
)

// The init's own rows of attacks: from a command it can be neither reached nor stood for.
func TestInitIsOutOfReach(t *testing.T) {
	t.Parallel()
	engine := connectBy(t, sandbox.WayInit)
	c := enter(t, engine, nastyImage(t, engine))
	for _, line := range []struct {
		name   string
		checks []check
	}{
		{"N1: no signal reaches it", []check{
			{"n=0; for s in $(seq 1 64); do kill -$s 1 2>/dev/null && echo sent $s; n=$((n+1)); done; echo $n", "64"},
			{"(kill -STOP -1; kill -9 -1) 2>/dev/null; echo alive", "(alive)?"},
			{"grep State: /proc/1/status", `State:\s[SR].*`},
		}},
		{"N2: nothing of it can be read or traced", []check{
			{"for f in environ mem maps auxv stack syscall personality pagemap io; do cat /proc/1/$f >/dev/null 2>&1 && echo $f; done", ""},
			{"for l in exe cwd root ns/mnt ns/pid ns/net ns/user; do readlink /proc/1/$l && echo $l; done; ls -A /proc/1/fd /proc/1/map_files 2>/dev/null | grep -v -e : -e '^$'", ""},
			{"/bin/probe-ptrace-attach; echo $?; /bin/probe-ptrace-seize; echo $?", "1\n1"},
			{"echo x > /proc/1/fd/0; echo x > /proc/1/fd/1; echo x > /proc/1/mem; echo 1000 > /proc/1/oom_score_adj; echo 0 > /proc/1/clear_refs; nsenter -t 1 -m -p true", "(.*([Pp]ermission denied|nonexistent|not permitted|not found).*\n?){6}"},
		}},
		{"N4: its program cannot be changed, and is no use", []check{
			{"echo x > /dev/belljar-init; rm -f /dev/belljar-init; mv /dev/belljar-init /tmp/x; ln -f /dev/belljar-init /tmp/y; ls /tmp", "(.*([Rr]ead-only|denied|not permitted|busy|[Cc]ross-device).*\n?){3,4}"},
			{"/dev/belljar-init frames 65533 0 </dev/null; grep -c . /proc/1/cmdline", "1"},
			{"sh -c 'exec -a /dev/belljar-init /dev/belljar-init frames 65533 0' </dev/null 2>&1 | head -c 100; id -u", "(?s).*65534"},
		}},
		{"N5: no descriptor is inherited", []check{{"exec ls /proc/self/fd", "0\n1\n2\n3"}}}, // 3 is that directory's
		{"N8: no capability, and none to regain", []check{
			{"grep -E '^(Cap|NoNewPrivs|Groups|Seccomp:)' /proc/self/status | tr -d '\\t '", "Groups:65534\nCapInh:0{16}\nCapPrm:0{16}\nCapEff:0{16}\nCapBnd:0{16}\nCapAmb:0{16}\nNoNewPrivs:1\nSeccomp:2"},
			{"grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs)' /proc/1/status | tr -s '\\t ' ' '", "Uid: 65533 65533 65533 65533\nGid: 65533 65533 65533 65533\nGroups: ?\nCapInh: 0{16}\nCapPrm: 0{14}e0\nCapEff: 0{14}e0\nCapBnd: 0{16}\nCapAmb: 0{16}\nNoNewPrivs: 1"},
		}},
		{"signals have their defaults", []check{{"grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status | tr -d '\\t'", "SigBlk:0{16}\nSigIgn:0{16}\nSigCgt:.*"}}},
		{"a session and a group of its own", []check{{`read -r _ _ _ parent group session _ </proc/$$/stat; echo $(($$-group)) $(($$-session)) $parent`, "0 0 1"}}},
		{"it still answers", []check{{"echo still", "still"}}},
	} {
		t.Run(line.name, func(t *testing.T) { c.wants(t, line.checks...) })
	}
	t.Run("what ends is reaped", func(t *testing.T) {
		c.run(t, "i=0; while [ $i -lt 20 ]; do (sleep 0.01 &); i=$((i+1)); done; sleep 0.3")
		c.wants(t, check{"i=0; while [ $i -lt 100 ] && grep -qs '^State:.Z' /proc/[0-9]*/status; do sleep 0.1; i=$((i+1)); done; grep -ls '^State:.Z' /proc/[0-9]*/status", ""})
	})
}

// N6: what a command writes is data, also where it is what an init would say.
func TestInitCannotBeForged(t *testing.T) {
	t.Parallel()
	engine := connectBy(t, sandbox.WayInit)
	c := enter(t, engine, baseImage(t, engine))
	var forged []byte
	for id := range uint32(40) {
		forged = wire.AppendFrame(forged, wire.Exited, id, wire.ExitedAnswer{Status: 0, When: 1}.Encode(nil))
		forged = wire.AppendFrame(forged, wire.Ended, id, []byte{byte(wire.Stdout)})
	}
	forged = append(append(forged, wire.Marker...), bytes.Repeat([]byte{0}, wire.NonceSize)...)
	for _, stream := range []string{"", " >&2", " | tee /dev/stderr"} {
		var stdout, stderr bytes.Buffer
		p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: "cat" + stream + "; exit 7", Dir: "/", User: c.spec.User, Stdin: bytes.NewReader(forged), Stdout: &stdout, Stderr: &stderr})
		if err != nil {
			t.Fatal(err)
		}
		status, err := p.Wait(t.Context())
		all := append(stdout.Bytes(), stderr.Bytes()...)
		if status != 7 || err != nil || !bytes.Equal(all[:min(len(all), len(forged))], forged) {
			t.Errorf("cat%s: status %d, error %v, %d bytes of %d", stream, status, err, len(all), len(forged))
		}
	}
}

// A process left in a session that stops all others of its user can stop new ones, too,
// as they begin. That is told, other users' commands run, and the session can be removed.
func TestInitWhileAllIsStopped(t *testing.T) {
	t.Parallel()
	engine := connectBy(t, sandbox.WayInit)
	box, spec := sessionOf(t, engine, time.Hour)
	begun, says := io.Pipe()
	if _, err := box.Exec(t.Context(), sandbox.Exec{Script: "echo; while :; do kill -STOP -1; done", Dir: "/", User: spec.User, Stdout: says, Stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if _, err := begun.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	other := &inside{engine, box, spec}
	other.spec.User = sandbox.User{UID: 1000, GID: 1000}
	var started []sandbox.Running
	for range 5 {
		p, err := box.Exec(t.Context(), sandbox.Exec{Script: "exit 0", Dir: "/", User: spec.User, Stdout: io.Discard, Stderr: io.Discard})
		if err != nil && !strings.Contains(err.Error(), "stops every new one") {
			t.Errorf("error %v", err)
		}
		if err == nil {
			started = append(started, p) // it may have been stopped since
		}
		other.wants(t, check{"echo I run", "I run"})
	}
	if err := box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	for _, p := range started {
		p.Wait(t.Context())
	}
}

// While all processes that a container may have are there, the init answers; a command
// that cannot start is told why, and when there is room again commands run.
func TestInitWithoutRoom(t *testing.T) {
	t.Parallel()
	engine := connectBy(t, sandbox.WayInit)
	spec := specOf(baseImage(t, engine))
	spec.Limits.Files = 1024
	c := enterAs(t, engine, spec)
	box := c.box
	fill := func() (err error) {
		for range 100 {
			if _, err = box.Exec(t.Context(), sandbox.Exec{Script: "sleep 1000", Dir: "/", User: spec.User, Stdout: io.Discard, Stderr: io.Discard}); err != nil {
				break
			}
		}
		return err
	}
	full := fill()
	if answers, ok := box.(interface{ Answers(context.Context) bool }); !ok || !answers.Answers(t.Context()) {
		t.Error("the init does not answer")
	}
	if sandbox.CauseOf(full) != sandbox.CausePidsLimit {
		t.Errorf("error %v", full)
	}
	list, err := box.Processes(t.Context())
	if err != nil || len(list) < 20 {
		t.Errorf("%d processes, error %v", len(list), err)
	}
	if err := box.Signal(t.Context(), list, "SIGKILL"); err != nil {
		t.Error(err)
	}
	waitFor(t, "there is room", func() bool {
		runs, err := box.Processes(t.Context())
		return err == nil && len(runs) == 0
	})
	c.wants(t, check{"echo again", "again"})
}

// A fork bomb does not keep a container from being removed.
func TestInitAmongForkBombs(t *testing.T) {
	t.Parallel()
	engine := connectBy(t, sandbox.WayInit)
	c := enter(t, engine, baseImage(t, engine))
	p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: "b() { b | b & }; b; sleep 1000", Dir: "/", User: c.spec.User, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it hits the limit", func() bool {
		counters, err := c.box.Counters(t.Context())
		return err == nil && counters.PidsLimitHits > 0
	})
	if err := c.box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if status, err := p.Wait(t.Context()); status != 137 && sandbox.CauseOf(err) != sandbox.CauseEngineLost {
		t.Errorf("status %d, error %v", status, err)
	}
}

// The engine starts no command in place of a session's init that does not answer: it would
// show what it is given.
func TestSilentInitIsAnError(t *testing.T) {
	t.Parallel()
	one, other := connectBy(t, sandbox.WayInit), connectBy(t, sandbox.WayInit)
	other.Dir = one.Dir
	box, spec := sessionOf(t, one, time.Hour)
	id := box.Info().ID
	box.Close()
	about, err := other.Client().ContainerInspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(about.State.Pid, syscall.SIGSTOP); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	defer syscall.Kill(about.State.Pid, syscall.SIGCONT)
	list, err := other.Sessions(t.Context(), spec.Session)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, error %v", list, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	again, err := other.Adopt(ctx, list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Info().Way != sandbox.WayInit {
		t.Errorf("it is adopted by way %s", again.Info().Way)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := again.Exec(ctx, sandbox.Exec{Script: "echo", Dir: "/", User: spec.User, Stdout: io.Discard, Stderr: io.Discard}); err == nil {
		t.Error("a command began")
	}
	syscall.Kill(about.State.Pid, syscall.SIGCONT)
	(&inside{other, again, spec}).wants(t, check{"echo back", "back"})
}

// One process at a time is attached to a session's init. Others have the engine start
// their commands meanwhile.
func TestOneProcessIsAttached(t *testing.T) {
	t.Parallel()
	one, other := connectBy(t, sandbox.WayInit), connectBy(t, sandbox.WayInit)
	other.Dir = one.Dir
	box, spec := sessionOf(t, one, time.Hour)
	adopt := func(engine *docker.Engine, way string) sandbox.Container {
		t.Helper()
		list, err := engine.Sessions(t.Context(), spec.Session)
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, error %v", list, err)
		}
		again, err := engine.Adopt(t.Context(), list[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Info().Way; got != way {
			t.Errorf("it is adopted by way %s, want %s", got, way)
		}
		(&inside{engine, again, spec}).wants(t, check{"echo $((6*7)); id -u; grep CapEff /proc/self/status | tr -d '\\t'", "42\n65534\nCapEff:0{16}"})
		return again
	}
	second, third := adopt(one, sandbox.WayInit), adopt(other, sandbox.WayExec)
	third.Close()
	box.Close()
	adopt(other, sandbox.WayExec).Close()
	second.Close()
	last := adopt(other, sandbox.WayInit)
	adopt(one, sandbox.WayExec).Close()
	// What runs while its handle is closed goes on, and the next one is not disturbed by it.
	p, err := last.Exec(t.Context(), sandbox.Exec{Script: "while :; do echo noise; done", Dir: "/", User: spec.User, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	docker.BreakLink(last)
	if status, err := p.Wait(t.Context()); sandbox.CauseOf(err) != sandbox.CauseEngineLost {
		t.Errorf("status %d, error %v", status, err)
	}
	(&inside{other, last, spec}).wants(t, check{"echo attached again", "attached again"})
	if got := last.Info().Way; got != sandbox.WayInit {
		t.Errorf("its way became %s", got)
	}
	last.Close()
	final := adopt(one, sandbox.WayInit)
	if list, err := final.Processes(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%+v, error %v", list, err)
	}
	if err := final.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// Where a container cannot have the init, the engine starts the commands, for good, and
// says why.
func TestWithoutInit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ program, why string }{
		{"/bin/busybox", "the container's init"}, // it is static, but no init
		{"/bin/ls", "is linked dynamically"},
		{"/no/such/program", "no such file"},
	} {
		t.Run(test.program, func(t *testing.T) {
			t.Parallel()
			engine := connect(t)
			engine.Init = test.program
			c := enter(t, engine, baseImage(t, engine))
			if way, why := engine.Way(); way != sandbox.WayExec || !strings.Contains(why, test.why) {
				t.Errorf("way %s: %s", way, why)
			}
			if way := c.box.Info().Way; way != sandbox.WayExec {
				t.Errorf("way %s", way)
			}
			c.wants(t, check{"echo runs", "runs"})
		})
	}
}

// What is wrong with a container does not count against the init.
func TestInitIsNotBlamed(t *testing.T) {
	t.Parallel()
	engine := connectBy(t, sandbox.WayInit)
	image := baseImage(t, engine)
	for name, change := range map[string]func(*sandbox.Spec){
		"a runtime that is not there": func(s *sandbox.Spec) { s.Runtime = "nope" },
		"a mount target that is a file": func(s *sandbox.Spec) {
			s.Mounts = []sandbox.Mount{{Source: t.TempDir(), Target: "/etc/passwd"}}
		},
	} {
		spec := specOf(image)
		change(&spec)
		box, err := engine.Create(t.Context(), spec)
		if err == nil {
			box.Remove(t.Context())
		}
		if sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if way := enter(t, engine, image).box.Info().Way; way != sandbox.WayInit {
		now, why := engine.Way()
		t.Errorf("way %s, %s: %s", way, now, why)
	}
}

// When a process ended is known exactly, also after all who waited for it.
func TestInitTellsWhenAProcessEnded(t *testing.T) {
	t.Parallel()
	engine := connectBy(t, sandbox.WayInit)
	c := enter(t, engine, baseImage(t, engine))
	begun := time.Now()
	p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: "exit 0", Dir: "/", User: c.spec.User, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(t.Context()); status != 0 || err != nil {
		t.Errorf("status %d, error %v", status, err)
	}
	ended := time.Now()
	for range 20 {
		if when, yes := p.HasEnded(t.Context()); !yes || when.Before(begun.Add(-time.Second)) || when.After(ended.Add(time.Second)) {
			t.Fatalf("it ended: %v, at %v, and began after %v", yes, when, begun)
		}
	}
}
