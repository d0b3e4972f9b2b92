package boxinit

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
)

// Small answers wait for the end of the turn, and go in one write; a large one goes at once, after them.
func TestSmallAnswersGoTogether(t *testing.T) {
	pipe := make([]int, 2)
	if err := syscall.Pipe2(pipe, syscall.O_NONBLOCK|syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer closeAll(pipe)
	block := make([]byte, 2*together)
	wrote := func(want string) {
		t.Helper()
		n, err := syscall.Read(pipe[0], block)
		if got := string(block[:max(0, n)]); got != want || want == "" && !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("%d bytes %.20q, error %v, want %d bytes %.20q", n, got, err, len(want), want)
		}
	}
	c := &conn{in: -1, out: pipe[1]}
	for _, text := range []string{"a", "b", "c"} {
		c.send(packet{text: []byte(text)})
	}
	wrote("")
	c.flush()
	wrote("abc")
	c.send(packet{text: []byte("d")})
	large := bytes.Repeat([]byte("x"), together+1)
	c.send(packet{text: large})
	wrote("d" + string(large))
	if c.flush(); c.size != 0 || len(c.unsent) != 0 {
		t.Errorf("%d bytes wait", c.size)
	}
	wrote("")
}

// Once a bug: files that went with what could not be sent were closed twice, and the second time perhaps another command's.
func TestFilesOfWhatIsNotSent(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(ends[0])
	file, err := syscall.Dup(ends[0])
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{in: -1, out: ends[0], unsent: []packet{{text: []byte("x"), files: []int{file}}}, size: 1}
	syscall.Close(ends[1]) // its reader is gone
	p := &c.unsent[0]
	if c.try(p) || len(p.files) > 0 {
		t.Errorf("it still has %v", p.files)
	}
}

// Once a bug: while too much waited to be sent nobody saw that its client had gone.
func TestTheEndOfAClientThatReadsNothingIsSeen(t *testing.T) {
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	writes.Write([]byte("a request"))
	c := &conn{in: int(reads.Fd()), out: -1}
	l := &loop{conns: []*conn{c}, again: true} // does not wait
	turn := func() {
		l.polled = nil
		c.size = tooMuch
		c.poll(l)
		c.size = 0
		l.wait()
		l.serve(c)
	}
	if turn(); c.in < 0 {
		t.Error("it is gone before its end")
	}
	writes.Close()
	if turn(); c.in >= 0 {
		t.Error("its end is not seen")
	}
}
