package sandboxtest

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// The suites' scripts. A real engine runs them in a shell; the fake runs the Go
// function in programs.
const (
	scriptBinary     = `printf 'a\000\377\376b\n'; printf '\001\000e\n' >&2`
	scriptLongLine   = `head -c 1048576 /dev/zero | tr '\000' x; echo end`
	scriptInterleave = `i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done`
	scriptMarker     = `echo marker`
	scriptCat        = `cat`
	scriptEnv        = `printf '%s\000' "$QUOTES" "$NEWLINES" "$UNICODE" "$EMPTY" "${EMPTY+set}" "${UNSET-unset}"`
	scriptWhere      = `pwd; id -u; id -g`
	scriptBackground = `sleep 1001 & until grep -q ^sleep /proc/$!/cmdline; do :; done; echo ready; wait; exit 1`
	scriptHolder     = `sleep 1003 & until grep -q ^sleep /proc/$!/cmdline; do :; done; echo done; exit 4`
	scriptStubborn   = `trap '' TERM INT HUP; echo ready; while :; do sleep 1; done`
	scriptFlood      = `head -c 8388608 /dev/zero`
	scriptSave       = `echo kept > /tmp/file`
	scriptLoad       = `cat /tmp/file`
	scriptClosed     = `exec >&- 2>&-; sleep 1; exit 9`
	scriptKillSelf   = `kill -9 $$`
	scriptTrap       = `trap 'echo SIGUSR1' USR1; trap 'echo SIGTERM; exit 5' TERM; echo ready; while :; do sleep 0.1; done`
	scriptLate       = `sleep 4`
	scriptMute       = `cat >/dev/null`
	scriptWaits      = `echo ready; exec sleep 1000`

	scriptIsTerminal  = `test -t 0 && test -t 1 && test -t 2 || exit 1; echo all; echo error >&2; exit 7`
	scriptSize        = `stty size`
	scriptResized     = `trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 1; done`
	scriptTyped       = `stty -echo; echo ready; cat; echo end`
	scriptInterrupted = `trap 'exit 5' INT; echo ready; while :; do sleep 1; done`
	scriptKeys        = `stty raw -echo; echo ready; head -c 7`

	scriptMuch   = `dd if=/dev/zero bs=1024 count=1024 2>&-` // in small pieces: more than any queue holds
	scriptBoth   = `echo out; echo err >&2; exit 3`
	scriptGone   = `echo ready; kill -9 1` // the container's main process
	scriptBytes  = "printf '\xff\xe2\x82'"
	scriptDenied = `echo denied`
	scriptAsked  = `echo asked`

	missingDir = "/no/such/directory"
)

var programs = map[string]func(p *Proc) int{
	scriptBinary: func(p *Proc) int {
		io.WriteString(p.Stdout, "a\x00\xff\xfeb\n")
		io.WriteString(p.Stderr, "\x01\x00e\n")
		return 0
	},
	scriptLongLine: func(p *Proc) int {
		line := bytes.Repeat([]byte("x"), 1<<20)
		for chunk := range chunks(line, 32<<10) {
			p.Stdout.Write(chunk)
		}
		io.WriteString(p.Stdout, "end\n")
		return 0
	},
	scriptInterleave: func(p *Proc) int {
		for i := range 500 {
			fmt.Fprintf(p.Stdout, "o%d\n", i)
			fmt.Fprintf(p.Stderr, "e%d\n", i)
		}
		return 0
	},
	scriptMarker: func(p *Proc) int {
		io.WriteString(p.Stdout, "marker\n")
		return 0
	},
	scriptCat: func(p *Proc) int {
		io.Copy(p.Stdout, p.Stdin)
		return 0
	},
	scriptEnv: func(p *Proc) int {
		env := map[string]string{"UNSET": "unset"}
		for _, kv := range p.Env {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = value
		}
		for _, value := range []string{env["QUOTES"], env["NEWLINES"], env["UNICODE"], env["EMPTY"], "set", env["UNSET"]} {
			io.WriteString(p.Stdout, value+"\x00")
		}
		return 0
	},
	scriptWhere: func(p *Proc) int {
		fmt.Fprintf(p.Stdout, "%s\n%d\n%d\n", p.Dir, p.User.UID, p.User.GID)
		return 0
	},
	scriptBackground: func(p *Proc) int {
		p.Start("sleep 1001", sleepFor(1001*time.Second))
		io.WriteString(p.Stdout, "ready\n")
		p.Sleep(1001 * time.Second)
		return 1
	},
	scriptHolder: func(p *Proc) int {
		p.Start("sleep 1003", sleepFor(1003*time.Second))
		io.WriteString(p.Stdout, "done\n")
		return 4
	},
	scriptStubborn: func(p *Proc) int {
		p.Trap("SIGTERM", "SIGINT", "SIGHUP")
		io.WriteString(p.Stdout, "ready\n")
		for {
			p.Sleep(time.Second)
		}
	},
	scriptFlood: func(p *Proc) int {
		for chunk := range chunks(make([]byte, 8<<20), 32<<10) {
			p.Stdout.Write(chunk)
		}
		return 0
	},
	scriptSave:     func(p *Proc) int { p.file("/tmp/file", "kept\n"); return 0 },
	scriptLoad:     func(p *Proc) int { io.WriteString(p.Stdout, p.file("/tmp/file", "")); return 0 },
	scriptClosed:   func(p *Proc) int { p.CloseOutput(); p.Sleep(time.Second); return 9 },
	scriptKillSelf: func(*Proc) int { return 137 },
	scriptTrap: func(p *Proc) int {
		signals := p.Trap("SIGUSR1", "SIGTERM")
		io.WriteString(p.Stdout, "ready\n")
		for {
			select {
			case s := <-signals:
				fmt.Fprintf(p.Stdout, "%s\n", s)
				if s == "SIGTERM" {
					return 5
				}
			case <-p.Killed:
				return 0
			}
		}
	},
	scriptLate: func(p *Proc) int { p.Sleep(4 * time.Second); return 0 },
	scriptMute: func(p *Proc) int { io.Copy(io.Discard, p.Stdin); return 0 },
	scriptWaits: func(p *Proc) int {
		io.WriteString(p.Stdout, "ready\n")
		p.Sleep(1000 * time.Second)
		return 0
	},

	scriptMuch: func(p *Proc) int {
		for chunk := range chunks(make([]byte, 1<<20), 1<<10) {
			p.Stdout.Write(chunk)
		}
		return 0
	},
	scriptBoth: func(p *Proc) int {
		io.WriteString(p.Stdout, "out\n")
		io.WriteString(p.Stderr, "err\n")
		return 3
	},
	scriptGone: func(p *Proc) int {
		io.WriteString(p.Stdout, "ready\n")
		p.KillContainer()
		return 0
	},
	scriptBytes:  func(p *Proc) int { io.WriteString(p.Stdout, "\xff\xe2\x82"); return 0 },
	scriptDenied: func(p *Proc) int { io.WriteString(p.Stdout, "denied\n"); return 0 },
	scriptAsked:  func(p *Proc) int { io.WriteString(p.Stdout, "asked\n"); return 0 },

	scriptIsTerminal: func(p *Proc) int {
		if p.TTY == nil {
			return 1
		}
		io.WriteString(p.Stdout, "all\n")
		io.WriteString(p.Stderr, "error\n")
		return 7
	},
	scriptSize: func(p *Proc) int { p.sttySize(); return 0 },
	scriptResized: func(p *Proc) int {
		_, changed := p.Sizes()
		io.WriteString(p.Stdout, "ready\n")
		select {
		case <-changed:
		case <-p.Killed:
		}
		p.sttySize()
		return 5
	},
	scriptTyped: func(p *Proc) int {
		io.WriteString(p.Stdout, "ready\n")
		io.Copy(p.Stdout, p.Stdin)
		io.WriteString(p.Stdout, "end\n")
		return 0
	},
	scriptInterrupted: func(p *Proc) int { p.typed(1); return 5 },
	scriptKeys:        func(p *Proc) int { p.Stdout.Write(p.typed(7)); return 0 },
}

func (p *Proc) sttySize() {
	sizes, _ := p.Sizes()
	fmt.Fprintf(p.Stdout, "%d %d\n", sizes[len(sizes)-1].Rows, sizes[len(sizes)-1].Columns)
}

// typed prints that it is ready, and returns the next n typed bytes.
func (p *Proc) typed(n int) []byte {
	io.WriteString(p.Stdout, "ready\n")
	keys := make([]byte, n)
	io.ReadFull(p.Stdin, keys)
	return keys
}

// programFor is the function for a script, nil if there is none.
func programFor(script string) func(p *Proc) int {
	var status int
	if _, err := fmt.Sscanf(script, "exit %d", &status); err == nil {
		return func(*Proc) int { return status }
	}
	switch {
	case strings.Contains(script, "tar -xf -"): // it moves files for the Runner
		return unpack
	case strings.Contains(script, "head -c \"$n\""):
		return collect
	}
	if play := filePrograms[script]; play != nil {
		return play
	}
	return programs[script]
}

func sleepFor(d time.Duration) func(p *Proc) int {
	return func(p *Proc) int { p.Sleep(d); return 0 }
}

func chunks(b []byte, size int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// file returns a file of the container, after writing content if that is not empty.
func (p *Proc) file(name, content string) string {
	p.box.mu.Lock()
	defer p.box.mu.Unlock()
	if content != "" {
		p.box.files[name] = content
	}
	return p.box.files[name]
}
