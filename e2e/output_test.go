package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxRSS bounds belljar's own memory, for any amount of output.
const maxRSS = 64 << 20

// runMeasured runs a command and returns its peak of memory.
func runMeasured(t *testing.T, cmd *exec.Cmd) int64 {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	peak := watchMemory(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return peak()
}

// seqBlock is the output of `seq 100000`.
var seqBlock = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	for i := 1; i <= 100000; i++ {
		b.WriteString(strconv.Itoa(i) + "\n")
	}
	return b.Bytes()
})

// flood is a script that writes text at full speed, that many times
// 18 MB, and its output.
func flood(times int) (script string, size int64, sum string) {
	script = `seq 100000 >/tmp/f; for i in 1 2 3 4 5; do cat /tmp/f /tmp/f >/tmp/g; mv /tmp/g /tmp/f; done; i=0; while [ $i -lt ` +
		strconv.Itoa(times) + ` ]; do cat /tmp/f; i=$((i+1)); done`
	hash := sha256.New()
	for range times * 32 {
		hash.Write(seqBlock())
	}
	return script, int64(times*32) * int64(len(seqBlock())), hex.EncodeToString(hash.Sum(nil))
}

func TestFloodPassesThroughWhole(t *testing.T) {
	needEngine(t)
	t.Parallel()
	times := 14
	if onPods() {
		times = 3
	}
	script, size, sum := flood(times)
	cmd := exec.Command(binary, "run", script)
	counter, hash := &countingWriter{}, sha256.New()
	cmd.Stdout = io.MultiWriter(counter, hash)
	got := runMeasured(t, cmd)
	if counter.n != size || hex.EncodeToString(hash.Sum(nil)) != sum {
		t.Errorf("%d bytes came through of %d, or others", counter.n, size)
	}
	if got > maxRSS || got == 0 {
		t.Errorf("belljar took %d MiB", got>>20)
	}
}

// A GiB at full speed, or what a cluster passes on in seconds: memory and disk use stay constant, and the
// counts are exact.
func TestFloodIsKeptWithinBounds(t *testing.T) {
	needEngine(t)
	t.Parallel()
	const limit = 1 << 20
	state, use := ownState(t)
	times := 57
	if onPods() {
		times = 3
	}
	script, size, sum := flood(times)
	if size < 1<<30 && !onPods() {
		t.Fatal("that is no GiB")
	}
	p := begun(t, use, "--max-output", "1MiB", script)
	disk := watchDisk(t, spoolOf(state), p.cmd.Process.Pid)
	r := p.report(t)
	r.ended(t, 0, "")
	if r.StdoutBytes != size || r.BytesTotal != size || r.StdoutSHA256 != sum {
		t.Errorf("%d bytes of %d with the sum %s, not %s", r.StdoutBytes, size, r.StdoutSHA256, sum)
	}
	kept := int64(len(r.Stdout))
	if r.DroppedBytes != size-kept || kept > limit || kept < limit-8 || r.StdoutGap == nil || r.StdoutGap.Bytes != r.DroppedBytes {
		t.Fatalf("dropped %d, kept %d, gap %+v", r.DroppedBytes, kept, r.StdoutGap)
	}
	if all := string(seqBlock()) + string(seqBlock()); !strings.HasPrefix(all, r.Stdout[:r.StdoutGap.Offset]) || !strings.HasSuffix(all, r.Stdout[r.StdoutGap.Offset:]) {
		t.Error("what is kept is neither the beginning nor the end")
	}
	if r.peak > maxRSS || r.peak == 0 {
		t.Errorf("belljar took %d MiB", r.peak>>20)
	}
	most, end := disk(), diskUse(t, spoolOf(state))
	if bound := int64(limit + limit/4 + 64<<10); most > bound || end > bound || end < limit {
		t.Errorf("%d bytes on disk at most and %d at the end, for a limit of %d", most, end, limit)
	}
}

func TestFloodInJSON(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for _, format := range []string{"json", "ndjson"} {
		cmd := exec.Command(binary, "run", "--format", format, "dd if=/dev/zero of=/tmp/f bs=1M count=32 2>/dev/null; cat /tmp/f /tmp/f /tmp/f /tmp/f")
		last := &tailWriter{}
		cmd.Stdout = last
		got := runMeasured(t, cmd)
		if !bytes.Contains(last.b, []byte(`"stdout_bytes":134217728,"stderr_bytes":0,"bytes_total":134217728,"stdout_lines":0,"stderr_lines":0,"stdout_sha256":"254bcc3fc4f27172636df4bf32de9f107f620d559b20d760197e452b97453917"`)) ||
			!bytes.Contains(last.b, []byte(`"stdout_gap":{"offset":8388608,"bytes":117440512},"truncated":true,"dropped_bytes":117440512,"binary":true`)) {
			t.Errorf("%s: the result ends with %s", format, last.b)
		}
		if got > maxRSS || got == 0 {
			t.Errorf("%s: belljar took %d MiB", format, got>>20)
		}
	}
}

type countingWriter struct{ n int64 }

func (w *countingWriter) Write(p []byte) (int, error) { w.n += int64(len(p)); return len(p), nil }

type tailWriter struct{ b []byte }

func (w *tailWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	w.b = w.b[max(0, len(w.b)-4096):]
	return len(p), nil
}

// nasty is every byte, invalid UTF-8, NULs and a line of 1 MB.
func nasty() []byte {
	var b bytes.Buffer
	for i := range 256 {
		b.WriteByte(byte(i))
	}
	b.WriteString("a\x00\xff\xfe\xc3\x28 \xed\xa0\x80\n")
	b.Write(bytes.Repeat([]byte("x"), 1<<20))
	return b.Bytes()
}

func TestBytesSurvive(t *testing.T) {
	needEngine(t)
	t.Parallel()
	in := nasty()
	cmd := exec.Command(binary, "run", "-i", "cat")
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil || !bytes.Equal(out, in) {
		t.Errorf("text: %d bytes back of %d, %v", len(out), len(in), err)
	}
	cmd = exec.Command(binary, "run", "-i", "--format", "json", "cat >&2")
	cmd.Stdin = bytes.NewReader(in)
	if out, err = cmd.Output(); err != nil {
		t.Fatal(err)
	}
	var r struct {
		Stderr   string
		Encoding string `json:"stderr_encoding"`
		Binary   bool
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	decoded, err := base64.StdEncoding.DecodeString(r.Stderr)
	if err != nil || r.Encoding != "base64" || !r.Binary || !bytes.Equal(decoded, in) {
		t.Errorf("json: %s, binary %v, %d bytes back of %d, %v", r.Encoding, r.Binary, len(decoded), len(in), err)
	}
}

// Both streams at full speed at once: neither loses a byte to the other.
func TestStreamsInterleaved(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd := exec.Command(binary, "run", `seq 1 1000000 & seq 1 1000000 >&2; wait`)
	want := sha256.New()
	for i := 1; i <= 1000000; i++ {
		io.WriteString(want, strconv.Itoa(i)+"\n")
	}
	stdout, stderr := sha256.New(), sha256.New()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stdout.Sum(nil), want.Sum(nil)) || !bytes.Equal(stderr.Sum(nil), want.Sum(nil)) {
		t.Error("a stream differs")
	}
}

// --output-file gets everything, also what limits.output removes from the result.
func TestOutputFile(t *testing.T) {
	needEngine(t)
	t.Parallel()
	dir := t.TempDir()
	for _, format := range []string{"text", "json", "ndjson"} {
		file := filepath.Join(dir, format)
		cmd := exec.Command(binary, "run", "--output-file", file, "--max-output", "64KiB", "--format", format, `seq 100000; printf 'a\000\377\033[m\r\n'`)
		if out, err := cmd.Output(); err != nil {
			t.Fatalf("%v: %.1000s", err, out)
		}
		got, err := os.ReadFile(file)
		if want := slices.Concat(seqBlock(), []byte("a\x00\xff\x1b[m\r\n")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes of %d, %v", format, len(got), len(want), err)
		}
	}
	file := filepath.Join(dir, "both")
	cmd := exec.Command(binary, "run", "--output-file", file, "--safe", `printf 'out\033\n'; sleep 3; printf 'err\033\n' >&2; sleep 3; echo end`)
	out, err := cmd.Output()
	if got, _ := os.ReadFile(file); err != nil || string(got) != "out\x1b\nerr\x1b\nend\n" || string(out) != "out\\x1b\nend\n" {
		t.Errorf("%q in the file, %q on stdout, %v", got, out, err)
	}
}

// A file that cannot be written is reported before anything runs.
func TestOutputFileThatCannotBeMade(t *testing.T) {
	needEngine(t)
	t.Parallel()
	before := time.Now()
	made := func(p *asked) bool {
		if !onDocker() {
			return !strings.Contains(p.stdout.String(), `"container":{"id":""`)
		}
		now := time.Now().Add(time.Second).Format(time.RFC3339)
		events := tool(t, "docker", "events", "--since", before.Format(time.RFC3339), "--until", now, "--filter", "event=create", "--format", "{{.Actor.Attributes}}")
		return strings.Contains(events, "dev.belljar.process:"+strconv.Itoa(p.cmd.Process.Pid)+"@")
	}
	p := begun(t, func(*exec.Cmd) {}, "--output-file", "/nonexistent/file", "true")
	r := p.report(t)
	r.ended(t, 125, "invalid_command")
	if !strings.Contains(p.stderr.String(), "--output-file: name a writable file") || r.Container.ID != "" || made(p) {
		t.Errorf("%q, %s", &p.stderr, r.json)
	}
	p = begun(t, func(*exec.Cmd) {}, "true")
	p.report(t).ended(t, 0, "")
	if !made(p) {
		t.Error("the engine does not tell of containers that are made")
	}
}

// The disk of that file may be full: the result comes in any case.
func TestOutputFileOnAFullDisk(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for _, format := range []string{"json", "ndjson"} {
		cmd := exec.Command(binary, "run", "--output-file", "/dev/full", "--format", format, "echo kept; sleep 1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if code := exitCode(t, err); code != 125 || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%s: exit %d, %q", format, code, &stderr)
		}
		if !strings.Contains(string(out), `"stdout":"kept\n"`) {
			t.Errorf("%s: no result, but %q", format, out)
		}
	}
}
