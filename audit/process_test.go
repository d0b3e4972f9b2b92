package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs as another process, if a test starts the binary as one.
func TestMain(m *testing.M) {
	if file := os.Getenv("AUDIT_TEST_VERIFY"); file != "" {
		os.Exit(verifyFor(file))
	}
	if file := os.Getenv("AUDIT_TEST_FILE"); file != "" {
		os.Exit(appendFor(file))
	}
	os.Exit(m.Run())
}

// appendFor appends until it is killed, or a number of records.
func appendFor(file string) int {
	l := &Log{File: file, MaxSize: 20_000, Keep: 1000}
	n := -1
	fmt.Sscan(os.Getenv("AUDIT_TEST_RECORDS"), &n)
	if limit := uint64(0); os.Getenv("AUDIT_TEST_LIMIT") != "" {
		signal.Ignore(syscall.SIGXFSZ)
		fmt.Sscan(os.Getenv("AUDIT_TEST_LIMIT"), &limit)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			panic(err)
		}
		l.MaxSize = 0
	}
	for i := 0; i != n; i++ {
		if err := l.Record(entry(fmt.Sprintf("%d-%d", os.Getpid(), i))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// verifyFor verifies with a low limit of open files.
func verifyFor(file string) int {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 16, Max: 16}); err != nil {
		panic(err)
	}
	s, err := Verify(file, "", func(f Finding) { fmt.Println(f) })
	fmt.Println(s.Records, s.Bad, err)
	return 0
}

// All files were open at once: 400 exceeded the limit of a process.
func TestVerifyHasFewFilesOpen(t *testing.T) {
	l := newLog(t)
	l.MaxSize, l.Keep = 1, 1000
	for i := range 50 {
		add(t, l, fmt.Sprint(i))
	}
	out, err := another(t, l, "AUDIT_TEST_VERIFY="+l.File).CombinedOutput()
	if string(out) != "50 0 <nil>\n" || err != nil {
		t.Errorf("%s, %v", out, err)
	}
}

// another appends to the log in a process of its own.
func another(t *testing.T, l *Log, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), "AUDIT_TEST_FILE="+l.File), env...)
	return cmd
}

func TestProcesses(t *testing.T) {
	const processes, each = 4, 100
	l := newLog(t)
	l.Keep = 1000
	var all []*exec.Cmd
	for range processes {
		cmd := another(t, l, fmt.Sprint("AUDIT_TEST_RECORDS=", each))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	wantRecords(t, l, processes*each)
	if old, err := rotations(l.File); err != nil || len(old) < 3 {
		t.Errorf("rotated %d times, %v", len(old), err)
	}
}

// After any process is killed, at any moment, the chain is valid, and continues.
func TestKilledProcesses(t *testing.T) {
	l := newLog(t)
	l.MaxSize, l.Keep = 20_000, 1000
	add(t, l, "first")
	last := uint64(1)
	for i := range 20 {
		a, b := another(t, l), another(t, l)
		for _, cmd := range []*exec.Cmd{a, b} {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(time.Minute); headSeq(t, l) <= last+3 && time.Now().Before(deadline); {
			time.Sleep(time.Duration(i) * 50 * time.Microsecond)
		}
		for _, cmd := range []*exec.Cmd{a, b} {
			cmd.Process.Kill()
			cmd.Wait()
		}
		s, found := verify(t, l)
		if s.Bad > 0 || s.Last <= last || s.First != 1 {
			t.Fatalf("%d: %+v, %q", i, s, found)
		}
		last = s.Last
		add(t, l, fmt.Sprint(i))
		if s, found := verify(t, l); s.Bad > 0 || s.Last <= last {
			t.Fatalf("%d: %+v, %q", i, s, found)
		}
	}
}

func headSeq(t *testing.T, l *Log) uint64 {
	var at ending
	if err := json.NewDecoder(bytes.NewReader(read(t, headName(l.File)))).Decode(&at); err != nil {
		t.Fatal(err)
	}
	return at.Seq
}

// A line that a full disk cuts short is removed again.
func TestShortWrite(t *testing.T) {
	for _, more := range []uint64{0, 1, 100} {
		l := newLog(t)
		add(t, l, "a", "b", "c")
		size := uint64(len(read(t, l.File)))
		if size < headSize {
			t.Fatalf("%d bytes", size)
		}
		out, err := another(t, l, "AUDIT_TEST_RECORDS=1", fmt.Sprint("AUDIT_TEST_LIMIT=", size+more)).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "file too large (free space there") {
			t.Errorf("%v, %s", err, out)
		}
		if now := uint64(len(read(t, l.File))); now != size {
			t.Errorf("%d bytes became %d", size, now)
		}
		wantRecords(t, l, 3)
		add(t, l, "d")
		wantRecords(t, l, 4)
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("NOT TESTED: mounting a small disk: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	os.Chmod(dir, 0o700)
	l := &Log{File: filepath.Join(dir, "audit", "audit.jsonl"), MaxSize: 10_000}
	n := int64(0)
	for ; n < 1000; n++ {
		err := l.Record(entry("a"))
		if errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if n == 10 {
			write(t, filepath.Join(dir, "filler"), make([]byte, 30<<10))
		}
	}
	if n < 20 || n == 1000 {
		t.Errorf("%d records", n)
	}
	wantRecords(t, l, n)
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	add(t, l, "b")
	wantRecords(t, l, n+1)
}
