package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"os/exec"
	"strconv"
	"testing"
)

// maxRSS bounds belljar's own memory, however much a command writes.
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

func TestFloodPassesThroughWhole(t *testing.T) {
	needEngine(t)
	const size = 1 << 30
	cmd := exec.Command(binary, "run", "head -c 1073741824 /dev/zero")
	counter := &countingWriter{}
	cmd.Stdout = counter
	got := runMeasured(t, cmd)
	if counter.n != size {
		t.Errorf("%d bytes came through of %d", counter.n, size)
	}
	if got > maxRSS {
		t.Errorf("belljar took %d MiB", got>>20)
	}
}

func TestFloodInJSON(t *testing.T) {
	needEngine(t)
	for _, format := range []string{"json", "ndjson"} {
		cmd := exec.Command(binary, "run", "--format", format, "head -c 268435456 /dev/zero")
		last := &tailWriter{}
		cmd.Stdout = last
		got := runMeasured(t, cmd)
		if !bytes.Contains(last.b, []byte(`"stdout_bytes":268435456,"stderr_bytes":0,"stdout_gap":{"offset":8388608,"bytes":251658240},"truncated":true,"dropped_bytes":251658240,"binary":true`)) {
			t.Errorf("%s: the result ends with %s", format, last.b)
		}
		if got > maxRSS {
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

// Both streams at full speed at once: neither costs the other a byte.
func TestStreamsInterleaved(t *testing.T) {
	needEngine(t)
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
