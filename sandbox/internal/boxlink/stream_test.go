package boxlink

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
)

// A command may open its streams again, as under docker run: they are its user's.
func TestReopen(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		out, errs, code := run(t, l, script("echo a >/dev/stdout; echo b >/dev/stderr; echo c >/proc/self/fd/1; cat /dev/stdin", nil, nil))
		if out != "a\nc\n" || errs != "b\n" || code != 0 {
			t.Errorf("got %q, %q, %d", out, errs, code)
		}
		s := script("tty; echo there >/dev/tty; echo err >/dev/stderr; echo again >$(tty)", nil, nil)
		s.TTY = &sandbox.TerminalSize{Columns: 80, Rows: 24}
		if out, _, _ := run(t, l, s); out != "/dev/pts/0\r\nthere\r\nerr\r\nagain\r\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestTerminal(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		in, typed := io.Pipe()
		out := &watched{}
		s := script("stty size; stty -echo; trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.01; done", out, out)
		s.TTY, s.Stdin = &sandbox.TerminalSize{Columns: 132, Rows: 43}, in
		p := start(t, l, s)
		out.await(t, "43 132\r\nready\r\n")
		if err := p.Resize(within(t), sandbox.TerminalSize{Columns: 70, Rows: 20}); err != nil {
			t.Error(err)
		}
		out.await(t, "20 70\r\n")
		if code := statusOpen(t, p); code != 3 {
			t.Errorf("status %d", code)
		}
		typed.Close()
		p.Close()

		s = script("cat; stty -a | grep -c isig", nil, nil) // the end of input, also in the middle of a line
		s.TTY, s.Stdin = &sandbox.TerminalSize{}, strings.NewReader("a\nb")
		if out, _, code := run(t, l, s); !strings.HasSuffix(out, "b1\r\n") || code != 0 {
			t.Errorf("got %q, %d", out, code)
		}
	})
}

// Once a bug: the terminal of a command that had it open no more was hung up, which ended the command; or it was not read any more.
func TestATerminalThatNoProcessHasOpen(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		in, typed := io.Pipe()
		defer typed.Close()
		for name, stdin := range map[string]io.Reader{"without stdin": nil, "with stdin": in} {
			s := script("echo first; exec </dev/null >/dev/null 2>&1; sleep 0.3; echo second >/dev/tty; sleep 0.3; echo third >/dev/tty; exit 7", nil, nil)
			s.TTY, s.Stdin = &sandbox.TerminalSize{}, stdin
			if out, _, code := run(t, l, s); out != "first\r\nsecond\r\nthird\r\n" || code != 7 {
				t.Errorf("%s: %q, %d", name, out, code)
			}
		}
	})
}

// What a process wrote is written out soon after its end, also where others hold its
// streams, even such as write on.
func TestRested(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		for name, c := range map[string]struct {
			tty   bool
			text  string
			wants int
		}{
			"held":             {false, "sleep 1000 & head -c 60000 /dev/zero", 60000},
			"held, much":       {false, "sleep 1000 & head -c 600000 /dev/zero", 600000},
			"held, nothing":    {false, "sleep 1000 &", 0},
			"written to":       {false, "(while :; do echo; done) & echo; sleep 0.05; exit", 1},
			"held, a terminal": {true, "trap '' HUP; sleep 1000 & head -c 3000 /dev/zero", 3000},
			"ended":            {false, "head -c 60000 /dev/zero", 60000},
		} {
			t.Run(name, func(t *testing.T) {
				var out bytes.Buffer
				s := script(c.text, &out, &out)
				if c.tty {
					s.TTY = &sandbox.TerminalSize{}
				}
				p := start(t, l, s)
				for _, c := range []<-chan struct{}{p.Exited(), p.Rested()} {
					select {
					case <-c:
					case <-within(t).Done():
						t.Fatal("it does not end")
					}
				}
				p.Close()
				if out.Len() < c.wants {
					t.Errorf("%d bytes are written, not %d", out.Len(), c.wants)
				}
			})
		}
		if err := l.KillAll(within(t)); err != nil {
			t.Error(err)
		}
	})
}

// A reader that is slow holds up its own process only, and so does a process that does
// not read its input.
func TestSlow(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		stuck := &blocked{began: make(chan struct{}), until: make(chan struct{})}
		slow := start(t, l, script("head -c 5000000 /dev/zero; echo end >&2", stuck, io.Discard))
		unread := script("exec sleep 1000", io.Discard, io.Discard)
		unread.Stdin = strings.NewReader(strings.Repeat("x", 5_000_000))
		idle := start(t, l, unread)
		<-stuck.began
		for range 5 {
			if out, _, _ := run(t, l, script("echo hi", nil, nil)); out != "hi\n" {
				t.Errorf("got %q", out)
			}
		}
		if !l.Answers(within(t)) {
			t.Error("the init does not answer")
		}
		close(stuck.until)
		if status(t, slow); stuck.n != 5_000_000 {
			t.Errorf("%d bytes came", stuck.n)
		}
		if err := l.Signal(within(t), idle.PID(), idle.StartTicks(), 9); err != nil {
			t.Error(err)
		}
		if code := status(t, idle); code != 137 {
			t.Errorf("status %d", code)
		}
	})
}

// Many at once, each with its own output.
func TestMany(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				var out, errs bytes.Buffer
				text := strings.Repeat(string(rune('a'+i%26)), 1000)
				s := script("while read -r l; do echo $l; echo $l >&2; done", &out, &errs)
				s.Stdin = strings.NewReader(strings.Repeat(text+"\n", 100))
				p, err := l.Start(within(t), s)
				if err != nil {
					t.Error(err)
					return
				}
				<-p.Exited()
				<-p.Ended()
				p.Close()
				if want := strings.Repeat(text+"\n", 100); out.String() != want || errs.String() != want || !p.Complete() {
					t.Errorf("process %d printed %d and %d bytes", i, out.Len(), errs.Len())
				}
			})
		}
		all.Wait()
	})
}

// What is written to both streams comes in order within each, and costs no more memory
// than it may.
func TestInterleaved(t *testing.T) {
	l := frames(t)
	stuck := &blocked{began: make(chan struct{}), until: make(chan struct{})}
	p := start(t, l, script("i=0; while [ $i -lt 20000 ]; do echo $i; echo $i >&2; i=$((i+1)); done", stuck, io.Discard))
	<-stuck.began
	time.Sleep(300 * time.Millisecond)
	p.queue.mu.Lock()
	if n := len(p.queue.chunks); n > 2*2048+1 {
		t.Errorf("%d pieces wait", n)
	}
	p.queue.mu.Unlock()
	close(stuck.until)
	if code := status(t, p); code != 0 || stuck.n != 108890 {
		t.Errorf("status %d, %d bytes", code, stuck.n)
	}
}

// An input that is not read to its end is not waited for, if its Read can be ended.
func TestStdinLeft(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		s := script("exit 4", nil, nil)
		s.Stdin = theirs
		if _, _, code := run(t, l, s); code != 4 {
			t.Errorf("status %d", code)
		}
		go ours.Write([]byte("x")) // the deadline is taken back
		if _, err := theirs.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
	})
}

// A leftover that writes to a process's streams gets SIGPIPE once they are closed.
func TestClose(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		p := start(t, l, script("exec 3>/tmp/belljar-init-left; (trap 'echo pipe >&3; exit' PIPE; while :; do echo 2>&3 || break; done; echo end >&3) & echo ok", io.Discard, io.Discard))
		defer os.Remove("/tmp/belljar-init-left")
		<-p.Rested()
		p.Close()
		for ctx := within(t); ; {
			list, err := l.List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Processes) == 0 {
				return
			}
		}
	})
}

// blocked is a writer that waits.
type blocked struct {
	began, until chan struct{}
	n            int
}

func (b *blocked) Write(p []byte) (int, error) {
	if b.n == 0 {
		close(b.began)
		<-b.until
	}
	b.n += len(p)
	return len(p), nil
}

// watched is a writer whose text can be waited for.
type watched struct {
	mu   sync.Mutex
	text []byte
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	return len(p), nil
}

// await waits for a text and drops all up to it.
func (w *watched) await(t testing.TB, want string) {
	t.Helper()
	for ctx := within(t); ; {
		w.mu.Lock()
		i := bytes.Index(w.text, []byte(want))
		if i >= 0 {
			w.text = w.text[i+len(want):]
		}
		text := string(w.text)
		w.mu.Unlock()
		if i >= 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%q did not come, but %q", want, text)
		case <-time.After(time.Millisecond):
		}
	}
}

// statusOpen waits for the end of a process, not for its streams'.
func statusOpen(t testing.TB, p *Process) int {
	t.Helper()
	select {
	case <-p.Exited():
	case <-within(t).Done():
		t.Fatal("the process does not end")
	}
	return p.Status()
}
