package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// diskUse is the size of the files below dir. Files may change meanwhile.
func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var about fs.FileInfo
			if about, err = entry.Info(); err == nil {
				size += about.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return size
}

// watchDisk looks at it until a process ends.
func watchDisk(t *testing.T, dir string, pid int) (peak func() int64) {
	var most int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for syscall.Kill(pid, 0) == nil {
			most = max(most, diskUse(t, dir))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() int64 { <-done; return most }
}

// smallDisk is a file system with room for that many bytes, and how to put
// state on it.
func smallDisk(t *testing.T, size int) (dir string, use func(*exec.Cmd)) {
	t.Helper()
	needEngine(t)
	needRoot(t, "a full disk")
	dir, use = ownState(t)
	use = unaudited(use)
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+strconv.Itoa(size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, use
}

// unaudited is for states that cannot be written: without an audit nothing runs.
func unaudited(use func(*exec.Cmd)) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		use(c)
		c.Env = append(c.Environ(), "BELLJAR_AUDIT_ENABLED=false")
	}
}

func sum(parts ...string) string {
	all := sha256.Sum256([]byte(strings.Join(parts, "")))
	return hex.EncodeToString(all[:])
}

const full = "no space left on device"

func TestDiskFull(t *testing.T) {
	t.Parallel()
	_, use := smallDisk(t, 512<<10)
	all := strings.Repeat(string(seqBlock()), 2)
	r := reported(t, use, "--max-output", "4MiB", "echo first >&2; sleep 3; seq 100000; seq 100000; sleep 3; echo last >&2; exit 3") // or the streams may overtake each other
	r.ended(t, 3, "")
	if r.StdoutBytes != int64(len(all)) || r.StderrBytes != 11 || r.StdoutSHA256 != sum(all) {
		t.Errorf("%s", r.json)
	}
	lost := int64(len(all) - len(r.Stdout))
	want := "the last " + strconv.FormatInt(lost, 10) + " bytes of stdout and the last 5 bytes of stderr could not be stored: "
	if !strings.HasPrefix(r.Evidence.OutputError, want) || !strings.Contains(r.Evidence.OutputError, full) || r.DroppedBytes != lost+5 {
		t.Errorf("dropped %d, said %q, want %q", r.DroppedBytes, r.Evidence.OutputError, want)
	}
	if len(r.Stdout) < 256<<10 || !strings.HasPrefix(all, r.Stdout) || r.Stderr != "first\n" {
		t.Errorf("%d bytes of stdout, and %q", len(r.Stdout), r.Stderr)
	}
	l := logsOf(t, use, r.ID)
	code := l.wait(t)
	missing := "belljar: " + strconv.FormatInt(lost+5, 10) + " bytes before offset " + strconv.Itoa(len(all)+11) + " are missing: they were not kept\n"
	if code != 0 || l.stdout.String() != r.Stdout || l.stderr.String() != "first\n"+missing {
		t.Errorf("exit %d, %d bytes of stdout, %q", code, l.stdout.Len(), &l.stderr)
	}
	if info := kept(t, use)[0]; info.Status != "error" || info.ExitCode != 3 || info.Stdout.Bytes != r.StdoutBytes || info.Stdout.SHA256 != r.StdoutSHA256 {
		t.Errorf("%+v", info)
	}
}

func TestDiskFullEndsTheCommand(t *testing.T) {
	t.Parallel()
	_, use := smallDisk(t, 512<<10)
	config := configured(t, "spool: {on_error: end}")
	r := reported(t, use, "--config", config, "--max-output", "4MiB", "seq 100000; sleep 1000")
	r.ended(t, exitKilled, "output_limit")
	if !strings.Contains(r.Message, "spool.on_error: end") || !strings.Contains(r.Evidence.OutputError, full) {
		t.Errorf("%s", r.json)
	}
	if len(r.Stdout) < 256<<10 || !strings.HasPrefix(string(seqBlock()), r.Stdout) || r.DroppedBytes != r.StdoutBytes-int64(len(r.Stdout)) {
		t.Errorf("kept %d, dropped %d of %d", len(r.Stdout), r.DroppedBytes, r.StdoutBytes)
	}
}

// A session that is there goes on. A new one is refused, with what to do, and leaves no container.
func TestDiskFullForSessions(t *testing.T) {
	t.Parallel()
	state, use := smallDisk(t, 512<<10)
	session := fmt.Sprintf("e2e-full-%d", time.Now().UnixNano())
	asks(t, use, "--session", session, "echo kept >f").ended(t, 0, "")
	fill := filepath.Join(state, "fill")
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if a := asks(t, use, "--session", session, "cat f"); a.code != 0 || a.Stdout != "kept\n" {
		t.Errorf("%s", a.json)
	}
	a := askAs(t, use, "--session", session+"-new", "echo ran")
	a.ended(t, 125, "engine_error")
	want := fmt.Sprintf("writing the record of session %q: write %s/", session+"-new", state)
	if !strings.HasPrefix(a.Message, want) || strings.Count(a.Message, full) != 1 || !strings.Contains(a.Message, "(make room in "+state) || a.Stdout != "" {
		t.Errorf("%s", a.json)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	rm := exec.Command(binary, "session", "rm", session)
	use(rm)
	if out, err := rm.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A live reader reads everything, and is told which bytes can no longer be read.
func TestDiskFullWhileSomebodyReads(t *testing.T) {
	t.Parallel()
	state, use := smallDisk(t, 512<<10)
	p := exec.Command(binary, "run", "--max-output", "4MiB", "seq 100000; exit 3")
	use(p)
	var stderr strings.Builder
	p.Stderr = &stderr
	out, err := p.Output()
	if code := exitCode(t, err); code != 3 || string(out) != string(seqBlock()) {
		t.Errorf("exit %d, %d bytes", code, len(out))
	}
	// There may be no room for the result either.
	said := stderr.String()
	if strings.HasPrefix(said, "belljar: the result is not stored: ") {
		_, said, _ = strings.Cut(said, "\n")
	}
	if !strings.HasPrefix(said, "belljar: output may be missing: the last ") || !strings.Contains(said, full) {
		t.Errorf("%q", &stderr)
	}
	// Full from the start: all that can be lost is what comes after the end.
	os.RemoveAll(spoolOf(state))
	if err := os.WriteFile(state+"/fill", make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	r := reported(t, use, "seq 100000")
	r.ended(t, 0, "")
	if r.Stdout != string(seqBlock()) {
		t.Errorf("%d bytes", len(r.Stdout))
	}
}

// If nothing can be stored, the command runs with a notice, or does not run.
func TestNoPlaceForOutput(t *testing.T) {
	needEngine(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := unaudited(func(c *exec.Cmd) { c.Env = append(c.Environ(), "XDG_STATE_HOME="+file, "TMPDIR=/nonexistent") })
	r := reported(t, nowhere, "echo lost; exit 3")
	if onOCI() { // the engine keeps its state there, too
		r.ended(t, 125, "engine_error")
		if !strings.Contains(r.Message, "making the engine's directory") || !strings.Contains(r.Message, "set XDG_STATE_HOME") {
			t.Errorf("%s", r.json)
		}
		return
	}
	r.ended(t, 3, "")
	if r.Stdout != "" || r.StdoutBytes != 5 || r.DroppedBytes != 5 || r.StdoutSHA256 != sum("lost\n") ||
		!strings.HasPrefix(r.Evidence.OutputError, "the last 5 bytes of stdout could not be stored: ") {
		t.Errorf("%s", r.json)
	}
	r = reported(t, nowhere, "--config", configured(t, "spool: {on_error: end}"), "--timeout", "5s", "echo lost; sleep 1000")
	r.ended(t, 125, "engine_error")
	if !strings.Contains(r.Message, "spool.on_error: end") || r.BytesTotal > 0 {
		t.Errorf("%s", r.json)
	}
}

// Removing the directory loses later output, and the earlier output is
// in the result.
func TestSpoolRemovedUnderCommand(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for action, then := range map[string]string{"continue": "exit 3", "end": "sleep 1000"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			state, use := ownState(t)
			dir, config := marked(t, "spool: {on_error: "+action+"}")
			p := begun(t, use, "--config", config, "-v", dir+":/work", "--max-output", "100KiB",
				"seq 100000; until [ -e /work/go ]; do sleep 0.1; done; seq 100000; "+then)
			id := oneRunning(t, use)
			eventually(t, "first part is there", func() bool { return strings.Contains(merged(t, use, id), "\n99999\n100000\n") })
			follower := logsOf(t, use, id, "-f", "--offset", strconv.Itoa(len(seqBlock())))
			if err := os.RemoveAll(spoolOf(state)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := p.report(t)
			if action == "end" {
				r.ended(t, exitKilled, "output_limit")
			} else {
				r.ended(t, 3, "")
				if all := string(seqBlock()) + string(seqBlock()); r.StdoutBytes != int64(len(all)) || r.StdoutSHA256 != sum(all) {
					t.Errorf("%s", r.json)
				}
			}
			if !strings.Contains(r.Evidence.OutputError, "bytes of stdout could not be stored: ") || r.DroppedBytes != r.StdoutBytes-int64(len(r.Stdout)) {
				t.Errorf("dropped %d of %d, said %q", r.DroppedBytes, r.StdoutBytes, r.Evidence.OutputError)
			}
			if head := string(seqBlock()[:50<<10]); !strings.HasPrefix(r.Stdout, head) {
				t.Errorf("kept %.100q", r.Stdout)
			}
			if code := follower.wait(t); code != 125 || !strings.Contains(follower.stderr.String(), "belljar: ") {
				t.Errorf("the follower: exit %d, %q", code, &follower.stderr)
			}
		})
	}
}

// marked is shared, with more in its configuration.
func marked(t *testing.T, lines ...string) (dir, config string) {
	t.Helper()
	dir, _ = shared(t, "rw")
	return dir, configured(t, append(lines, "mounts:", "  allow:", `    - {source: "`+dir+`", mode: rw}`)...)
}

// At every kind of end, the earlier output is in the result, in order, and
// can be read again.
func TestPartialOutput(t *testing.T) {
	needEachEngine(t)
	t.Parallel()
	const out, errs, both = "first\nthird", "second\n", "first\nsecond\nthird"
	signal := func(_ *testing.T, p *asked) { p.cmd.Process.Signal(syscall.SIGTERM) }
	nothing := func(*testing.T, *asked) {}
	for _, test := range []struct {
		name  string
		flags []string
		end   func(*testing.T, *asked) // once the output is there
		code  int
		cause string
	}{
		{"wall timeout", []string{"--timeout", "30s"}, nothing, exitTimeout, "wall_timeout"},
		{"idle timeout", []string{"--idle-timeout", "15s"}, nothing, exitTimeout, "idle_timeout"},
		{"canceled", nil, signal, exitCanceled, "canceled"},
		{"killed", nil, func(t *testing.T, p *asked) { signal(t, p); signal(t, p) }, exitCanceled, "canceled"},
		{"engine lost", nil, nil, 125, "engine_lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, use := ownState(t)
			script := "echo first; sleep 3; echo second >&2; sleep 3; printf third; sleep 1000" // or the streams may overtake each other
			if test.end == nil {
				d, mine := privateEngine(t), use
				use = func(c *exec.Cmd) { d.Use(c); mine(c) }
				test.end = func(t *testing.T, _ *asked) { d.Signal(t, syscall.SIGKILL) }
			} else {
				needEngine(t)
			}
			p := begun(t, use, append(test.flags, "--view", "merged", "--streams", "full", script)...)
			id := oneRunning(t, use)
			eventually(t, "output there", func() bool { return merged(t, use, id) == both })
			follower := logsOf(t, use, id, "-f")
			test.end(t, p)
			r := p.report(t)
			r.ended(t, test.code, test.cause)
			if r.Stdout != out || r.Stderr != errs || r.BytesTotal != int64(len(both)) || r.View.Merged == nil || r.View.Merged.Text != both {
				t.Errorf("%s", r.json)
			}
			if r.StdoutSHA256 != sum(out) || r.DroppedBytes > 0 || r.Evidence.OutputError != "" && test.cause != "engine_lost" {
				t.Errorf("%s", r.json)
			}
			if got := merged(t, use, id); got != both {
				t.Errorf("it can be read as %q", got)
			}
			if code := follower.wait(t); code != 0 || follower.stdout.String() != out || follower.stderr.String() != errs {
				t.Errorf("the follower: exit %d, %q and %q", code, &follower.stdout, &follower.stderr)
			}
			if info := kept(t, use)[0]; info.Status != "" && string(info.Status) != r.Status || info.ExitCode != r.ExitCode {
				t.Errorf("listed as %+v", info)
			}
		})
	}
}
