package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// O1: endless output is truncated, and does not grow belljar.
func endlessOutput(t *testing.T) {
	const most = 256 << 10
	a := ask(t, "--timeout", "5s", "--max-output", "256KiB", "yes")
	a.ended(t, 124, "wall_timeout")
	if !a.Truncated || len(a.Stdout) > most || a.StdoutBytes <= most {
		t.Errorf("truncated %v, kept %d of %d", a.Truncated, len(a.Stdout), a.StdoutBytes)
	}
	if a.peak > maxRSS || a.peak == 0 {
		t.Errorf("belljar took %d MiB", a.peak>>20)
	}
}

// O2: output does not wait for the end of a line.
func endlessLine(t *testing.T) {
	const size = 100_000_000
	cmd := exec.Command(binary, "run", "head -c "+strconv.Itoa(size)+" /dev/zero")
	counter := &countingWriter{}
	cmd.Stdout = counter
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	peak := watchMemory(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil || counter.n != size {
		t.Errorf("%d bytes, %v", counter.n, err)
	}
	if got := peak(); got > maxRSS || got == 0 {
		t.Errorf("belljar took %d MiB", got>>20)
	}
}

// O3: output is checked before it counts as text.
func exactBytes(t *testing.T) {
	script := `printf 'a\000\377\376'`
	out, err := exec.Command(binary, "run", script).Output()
	if string(out) != "a\x00\xff\xfe" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if a := ask(t, script); a.Stdout != "YQD//g==" || a.StdoutEncoding != "base64" {
		t.Errorf("%q in %s", a.Stdout, a.StdoutEncoding)
	}
}

// O4: belljar's own messages cannot control a terminal (CVE-2021-25743):
// neither by a process's name nor by the request. The streams
// themselves are passed on unchanged.
func terminalEscapes(t *testing.T) {
	const escape = "\x1b]0;x\a\x1b[2J\u009b2J\u202e"
	for _, args := range [][]string{
		{"--timeout", "1s", `sh -c 'sleep 100; :' "` + escape + `"`},
		{"--profile", escape, "true"}, {"--image", escape, "true"}, {"--network", escape, "true"}, {"-w", "/" + escape, "true"},
		{"-v", "/" + escape + ":/x", "true"}, {"--user", escape, "true"}, {"-e", escape, "true"}, {"--" + escape},
	} {
		var stderr bytes.Buffer
		cmd := exec.Command(binary, append([]string{"run"}, args...)...)
		cmd.Stderr = &stderr
		if exitCode(t, cmd.Run()) == 0 || stderr.Len() == 0 || strings.ContainsAny(stderr.String(), "\x1b\a\u009b\u202e") {
			t.Errorf("%q: %q", args, &stderr)
		}
	}
}

// O6: the shortest output is never lost (moby#29285). BELLJAR_O6 is the number
// of repetitions.
func everyMarker(t *testing.T) {
	runs := 50
	if onPods() {
		runs = 10 // each takes seconds of the node
	}
	if n, err := strconv.Atoi(os.Getenv("BELLJAR_O6")); err == nil {
		runs = n
	}
	jobs := make(chan int)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for i := range jobs {
				if out, err := exec.Command(binary, "run", "echo marker").Output(); string(out) != "marker\n" || err != nil {
					t.Errorf("run %d of %d: %q, %v", i, runs, out, err)
				}
			}
		})
	}
	for i := range runs {
		jobs <- i
	}
	close(jobs)
	group.Wait()
}

// O7: neither stream loses a byte to the other.
func bothStreamsWhole(t *testing.T) {
	a := ask(t, "--max-output", "1MiB", "yes o | head -c 10000000 & yes e | head -c 10000000 >&2; wait")
	a.ended(t, 0, "")
	if a.StdoutBytes != 1e7 || a.StderrBytes != 1e7 {
		t.Errorf("%d and %d bytes", a.StdoutBytes, a.StderrBytes)
	}
}

// O10: a caller that does not read cannot keep the command alive (moby#41827).
func readerStalls(t *testing.T) {
	cmd := exec.Command(binary, "run", "yes")
	if _, err := cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "container made", func() bool { return owned(cmd.Process.Pid) != "" })
	time.Sleep(2 * time.Second) // until every buffer is full
	cmd.Process.Signal(syscall.SIGINT)
	eventually(t, "container gone", func() bool { return owned(cmd.Process.Pid) == "" })
	cmd.Process.Kill() // it may still wait for its reader, this test
	cmd.Wait()
}

// O12: a million lines are a million lines.
func shortLines(t *testing.T) {
	cmd := exec.Command(binary, "run", "yes x | head -n 1000000")
	counter := &countingWriter{}
	cmd.Stdout = counter
	if err := cmd.Run(); err != nil || counter.n != 2_000_000 {
		t.Errorf("%d bytes, %v", counter.n, err)
	}
}
