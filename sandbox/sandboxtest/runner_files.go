package sandboxtest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"belljar/sandbox"
)

const (
	scriptFiles  = `cat in/a.bin; cp in/a.bin out.bin; printf 'two\n' >out.txt`
	scriptFailed = `printf 'so far\n' >out.txt; exit 3`
	scriptNoFile = `test ! -e in/a.bin`
)

// hostileBytes are no text, and have what marks the ends of lines, archives and JSON.
var hostileBytes = append(bytes.Repeat([]byte("\x00\xff\"\\\n"), 1000), make([]byte, 1024)...)

var runnerFileTests = map[string]func(*testing.T, *opener){
	"files go in and come out": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptFiles, func(c *sandbox.Command) {
			c.Files = []sandbox.File{{Path: "in/a.bin", Content: hostileBytes}, {Path: "in/empty", Mode: 0o600}}
			c.Collect = []string{"*.bin", "*.txt", "none"}
		})
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		if !bytes.Equal(r.Stdout.Bytes(), hostileBytes) {
			t.Errorf("the command read %d other bytes", len(r.Stdout.Bytes()))
		}
		wantFiles(t, r, map[string]string{"out.bin": string(hostileBytes), "out.txt": "two\n"})
	},
	"a failed command's files": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptFailed, func(c *sandbox.Command) { c.Collect = []string{"out.txt"} })
		wantFate(t, r, sandbox.StatusError, sandbox.CauseExited, 3)
		wantFiles(t, r, map[string]string{"out.txt": "so far\n"})
	},
	"a file larger than the result": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptFiles, func(c *sandbox.Command) {
			c.Files = []sandbox.File{{Path: "in/a.bin", Content: hostileBytes}}
			c.Collect, c.Limits.Result = []string{"out.bin"}, 2048
		})
		if len(r.Files) != 1 || !r.Files[0].Truncated || r.Files[0].Size != int64(len(hostileBytes)) || !bytes.Equal(r.Files[0].Content, hostileBytes[:2048]) {
			t.Errorf("%+v, %q", r.Files, r.Evidence.CollectError)
		}
	},
	"another command's files": func(t *testing.T, o *opener) {
		r := o.runner(t)
		r.run(t, scriptFiles, func(c *sandbox.Command) {
			c.Files = []sandbox.File{{Path: "in/a.bin", Content: []byte("x")}}
		})
		wantFate(t, r.run(t, scriptNoFile), sandbox.StatusSuccess, sandbox.CauseExited, 0)
	},
	"files that may not be": func(t *testing.T, o *opener) {
		r := o.runner(t)
		for name, c := range map[string]sandbox.Command{
			"outside":  {Files: []sandbox.File{{Path: "../a"}}},
			"absolute": {Files: []sandbox.File{{Path: "/etc/passwd"}}},
			"twice":    {Files: []sandbox.File{{Path: "a"}, {Path: "./a"}}},
			"collects": {Collect: []string{"../*"}},
		} {
			c.Script = scriptMarker
			_, err := r.Start(r.ctx, c)
			wantRefusal(t, name, err, sandbox.CauseInvalid)
		}
	},
}

func wantFiles(t *testing.T, r sandbox.Result, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, f := range r.Files {
		got[f.Path] = string(f.Content)
		if f.Error != "" || f.Truncated || f.Size != int64(len(f.Content)) || f.Mode != 0o644 {
			t.Errorf("%s: %+v", f.Path, f)
		}
	}
	if !maps.Equal(got, want) || r.Evidence.CollectError != "" {
		t.Errorf("%d files, want %d: %q", len(got), len(want), r.Evidence.CollectError)
	}
}

var filePrograms = map[string]func(p *Proc) int{
	scriptFiles: func(p *Proc) int {
		in := p.file("/work/in/a.bin", "")
		io.WriteString(p.Stdout, in)
		p.file("/work/out.bin", in)
		p.file("/work/out.txt", "two\n")
		return 0
	},
	scriptFailed: func(p *Proc) int { p.file("/work/out.txt", "so far\n"); return 3 },
	scriptNoFile: func(p *Proc) int {
		if p.file("/work/in/a.bin", "") != "" {
			return 1
		}
		return 0
	},
}

// variable is one of a script that moves files.
func (p *Proc) variable(name string) string {
	for _, kv := range p.Env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// mayBegin is the input of a script that moves files, once it may begin.
func (p *Proc) mayBegin() *bufio.Reader {
	io.WriteString(p.Stdout, "\n")
	in := bufio.NewReader(p.Stdin)
	in.ReadString('\n')
	return in
}

// unpack plays the script that unpacks files into the workspace.
func unpack(p *Proc) int {
	archive := tar.NewReader(p.mayBegin())
	for {
		h, err := archive.Next()
		if err == io.EOF { //nolint:errorlint // as tar has it
			return 0
		}
		if err != nil {
			return 87
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return 87
		}
		if h.Typeflag == tar.TypeReg && h.Name != p.variable("T") {
			p.file(p.variable("W")+"/"+strings.TrimPrefix(h.Name, "./"), string(content))
		}
	}
}

// collect plays the script that lists files and writes their content. It lists all that there
// are: the Runner has to see what fits.
func collect(p *Proc) int {
	in, mark, dir := p.mayBegin(), p.variable("T"), p.variable("W")+"/"
	for line := "-"; line != "\n" && line != ""; {
		line, _ = in.ReadString('\n')
	}
	p.box.mu.Lock()
	files := maps.Clone(p.box.files)
	p.box.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if of, ok := strings.CutPrefix(name, dir); ok {
			fmt.Fprintf(p.Stdout, "%s %x %d 0 ./%s\n", mark, 0o100000|int(fs.FileMode(0o644)), len(files[name]), of)
		}
	}
	fmt.Fprintf(p.Stdout, "\n%s.\n", mark)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0
		}
		var name string
		var size int
		if _, err := fmt.Sscanf(strings.ReplaceAll(line, "'", ""), "f=%s n=%d", &name, &size); err != nil {
			return 1
		}
		fmt.Fprintf(p.Stdout, "%s\n%s:\n0\n", files[dir+name][:size], mark)
	}
}
