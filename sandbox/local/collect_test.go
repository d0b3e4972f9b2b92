package local_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"

	"github.com/google/go-cmp/cmp"
)

// collector is a fake of what collects files: list prints what it finds, and content a file.
type collector struct {
	list, content func(p *sandboxtest.Proc, mark string)
}

func (c collector) play(p *sandboxtest.Proc) int {
	io.WriteString(p.Stdout, "\n")
	in := bufio.NewScanner(p.Stdin)
	in.Scan() // for which it waits
	for in.Scan() && in.Text() != "" {
	}
	mark := ""
	for _, kv := range p.Env {
		if value, ok := strings.CutPrefix(kv, "T="); ok {
			mark = value
		}
	}
	c.list(p, mark)
	fmt.Fprintf(p.Stdout, "\n%s.\n", mark)
	for in.Scan() {
		c.content(p, mark)
	}
	return 0
}

// prints is output in which T is the mark.
func prints(text string) func(p *sandboxtest.Proc, mark string) {
	return func(p *sandboxtest.Proc, mark string) {
		io.WriteString(p.Stdout, strings.ReplaceAll(text, "T", mark))
	}
}

// collect runs a command whose files are collected, with helper as what does it.
func collect(t *testing.T, c sandbox.Command, command, helper func(p *sandboxtest.Proc) int) sandbox.Result {
	t.Helper()
	return run(t, playing(func(p *sandboxtest.Proc) int {
		if strings.HasPrefix(p.Script, "# ") {
			return helper(p)
		}
		return command(p)
	}), c)
}

const oneFile = "T 81a4 3 0 ./a\n"

func TestCollectHostile(t *testing.T) {
	for name, test := range map[string]struct {
		list, content string
		want          []sandbox.CollectedFile
		problem       string
	}{
		"a file":              {oneFile, "abc\nT:\n0\n", []sandbox.CollectedFile{{Path: "a", Mode: 0o644, Size: 3, Content: []byte("abc")}}, ""},
		"it shrank":           {oneFile, "a\nT:\n0\n", []sandbox.CollectedFile{{Path: "a", Mode: 0o644, Size: 1, Content: []byte("a")}}, ""},
		"it went":             {oneFile, "ab\nT:\n1\n", []sandbox.CollectedFile{{Path: "a", Mode: 0o644, Size: 3, Error: "it cannot be read"}}, ""},
		"it grew":             {oneFile, strings.Repeat("abcdefgh\n", 9), nil, "sends more than it was asked for"},
		"another mark":        {oneFile, "abc\nT :\n0\n", nil, "sends more than it was asked for"},
		"a long status":       {oneFile, "abc\nT:\n00000\n", nil, "sends more than it was asked for"},
		"no content":          {oneFile, "", nil, "does not work as head does"},
		"names that lead out": {"T 81a4 3 0 ./../a\nT 81a4 3 0 .//etc/passwd\nT 81a4 3 0 ./..\nT 81a4 3 0 /etc/passwd\nT 81a4 3 0 ./x/../../y\n", "", nil, ""},
		"not asked for":       {"T 81a4 3 0 ./b/c\n", "", nil, ""},
		"a directory":         {"T 41ed 3 0 ./a\n", "", nil, ""},
		"twice":               {oneFile + oneFile, "abc\nT:\n0\n", []sandbox.CollectedFile{{Path: "a", Mode: 0o644, Size: 3, Content: []byte("abc")}}, ""},
		"no numbers":          {"T what ever it ./a\nT\nT \n", "", nil, ""},
		"special files":       {"T a1ff 9 0 ./a\nT 11a4 0 0 ./b\nT 61b0 0 0 ./\x1b\n", "", []sandbox.CollectedFile{{Path: "\x1b", Mode: 0o660, Error: "it is not a regular file"}, {Path: "a", Mode: 0o777, Size: 9, Error: "it is a symbolic link"}, {Path: "b", Mode: 0o644, Error: "it is not a regular file"}}, ""},
		"a directory, too":    {"T 81a4 0 0 ./a\nT 81a4 0 0 ./a!\nT 81a4 3 0 ./a/b\n", "abc\nT:\n0\n", []sandbox.CollectedFile{{Path: "a", Mode: 0o644, Error: "it was also a directory meanwhile"}, {Path: "a!", Mode: 0o644}, {Path: "a/b", Mode: 0o644, Size: 3, Content: []byte("abc")}}, ""},
		"a name of bytes":     {"T 81a4 3 0 ./\xff\n", "", []sandbox.CollectedFile{{Path: "\xff", Mode: 0o644, Size: 3, Error: "its name is not UTF-8"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := collect(t, sandbox.Command{Script: "x", Collect: []string{"*", "a/*"}}, sleep(0), collector{prints(test.list), prints(test.content)}.play)
				if diff := cmp.Diff(test.want, r.Files); diff != "" || !strings.Contains(r.Evidence.CollectError, test.problem) || test.problem == "" && r.Evidence.CollectError != "" {
					t.Errorf("%s; %q", diff, r.Evidence.CollectError)
				}
				wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
			})
		})
	}
}

// Limits.Result is for all files together, and a count and the names have limits, too.
func TestCollectLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes := []int{600, 600, 0, 1}
		list := ""
		for i, size := range sizes {
			list += fmt.Sprintf("T 81a4 %d 0 ./%d\n", size, i)
		}
		contents := []string{strings.Repeat("a", 600), strings.Repeat("b", 424)}
		r := collect(t, sandbox.Command{Script: "x", Collect: []string{"*"}, Limits: sandbox.Limits{Result: 1024}}, sleep(0), collector{prints(list), func(p *sandboxtest.Proc, mark string) {
			fmt.Fprintf(p.Stdout, "%s\n%s:\n0\n", contents[0], mark)
			contents = contents[1:]
		}}.play)
		if len(r.Files) != 4 || len(contents) != 0 {
			t.Fatalf("%+v, %s", r.Files, r.Evidence.CollectError)
		}
		for i, f := range r.Files {
			if want := []int{600, 424, 0, 0}[i]; len(f.Content) != want || f.Size != int64(sizes[i]) || f.Truncated != (want < sizes[i]) {
				t.Errorf("file %d has %d bytes: %t", i, len(f.Content), f.Truncated)
			}
		}
		many := func(p *sandboxtest.Proc, mark string) {
			for i := range 1001 {
				fmt.Fprintf(p.Stdout, "%s 81a4 0 0 ./%04d\n", mark, i)
			}
		}
		r = collect(t, sandbox.Command{Script: "x", Collect: []string{"*"}}, sleep(0), collector{many, nil}.play)
		if len(r.Files) != 1000 || !strings.Contains(r.Evidence.CollectError, "1001 fit, and only the first 1000") {
			t.Errorf("%d files: %s", len(r.Files), r.Evidence.CollectError)
		}
	})
}

// What hangs is ended after a known time, and what came before is kept.
func TestCollectTimes(t *testing.T) {
	hangs := func(p *sandboxtest.Proc, _ string) { p.Sleep(24 * time.Hour) }
	for name, test := range map[string]struct {
		helper func(p *sandboxtest.Proc) int
		most   time.Duration
		says   string
	}{
		"mute":    {func(p *sandboxtest.Proc) int { p.Sleep(24 * time.Hour); return 0 }, 10 * time.Second, "not finished within 10s"},
		"listing": {collector{hangs, nil}.play, 10 * time.Second, "not finished within 10s"},
		"reading": {collector{prints(oneFile), hangs}.play, 10 * time.Second, "not finished within 10s"},
		"no find": {func(p *sandboxtest.Proc) int { begun(p); io.WriteString(p.Stderr, "find\n"); return 86 }, 0, `has no "find"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r := collect(t, sandbox.Command{Script: "x", Collect: []string{"*"}}, sleep(0), test.helper)
				if !strings.Contains(r.Evidence.CollectError, test.says) || len(r.Files) > 0 {
					t.Errorf("%+v, %q", r.Files, r.Evidence.CollectError)
				}
				if took := time.Since(began); took < test.most || took > test.most+time.Second {
					t.Errorf("it took %s", took)
				}
			})
			synctest.Test(t, func(t *testing.T) { // the command is to be ended, too
				began := time.Now()
				r := collect(t, sandbox.Command{Script: "x", Collect: []string{"*"}, Timeout: time.Minute, IdleTimeout: sandbox.NoIdleTimeout}, sleep(time.Hour), test.helper)
				wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseWallTimeout, sandbox.ExitEnded)
				if r.Evidence.CollectError == "" {
					t.Error("no error")
				}
				if took := time.Since(began); took > time.Minute+3*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// A command that is ended by a timeout leaves files; one that is canceled does not.
func TestCollectAtEnd(t *testing.T) {
	helper := collector{prints(oneFile), prints("abc\nT:\n0\n")}.play
	c := sandbox.Command{Script: "x", Collect: []string{"a"}, Timeout: time.Minute, IdleTimeout: sandbox.NoIdleTimeout}
	synctest.Test(t, func(t *testing.T) {
		if r := collect(t, c, sleep(time.Hour), helper); len(r.Files) != 1 || r.Cause != sandbox.CauseWallTimeout {
			t.Errorf("%+v, %q", r.Files, r.Evidence.CollectError)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := playing(sleep(time.Hour))
		x, err := newLocal(e).Start(cancelAfter(t, time.Second), c)
		if err != nil {
			t.Fatal(err)
		}
		if r, _ := x.Wait(); r.Cause != sandbox.CauseCanceled || !strings.Contains(r.Evidence.CollectError, "canceled") {
			t.Errorf("%s, %q", r.Cause, r.Evidence.CollectError)
		}
		wantNoneLeft(t, e)
	})
}

// What cannot be written keeps the command from starting, and everything is audited.
func TestCommandFiles(t *testing.T) {
	started := false
	stage := func(t *testing.T, status int, c sandbox.Command) (sandbox.Result, *auditor) {
		e := playing(func(p *sandboxtest.Proc) int {
			if strings.HasPrefix(p.Script, "# ") {
				begun(p)
				io.Copy(io.Discard, p.Stdin)
				fmt.Fprint(p.Stderr, "tar: \x1b[31m\n")
				return status
			}
			started = true
			return 0
		})
		l, a := newLocal(e), &auditor{}
		l.Auditor = a
		c.Script = "x"
		r, _ := sandbox.Run(t.Context(), l, c)
		wantNoneLeft(t, e)
		return r, a
	}
	synctest.Test(t, func(t *testing.T) {
		files := []sandbox.File{{Path: "d/f", Content: []byte("four")}, {Path: "/tmp/x"}}
		r, a := stage(t, 0, sandbox.Command{Files: files, Collect: []string{"*.log"}})
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		if d := a.records[0].Decision; !started || cmp.Diff([]string{"d/f:4", "/tmp/x:0"}, d.Files) != "" || cmp.Diff([]string{"*.log"}, d.Collect) != "" {
			t.Errorf("started: %t, recorded: %+v", started, d)
		}
		started = false
		r, _ = stage(t, 1, sandbox.Command{Files: files})
		if started || r.Status != sandbox.StatusFatal || !strings.Contains(r.Message, `"tar: \x1b[31m"`) {
			t.Errorf("started: %t, %s", started, r.Message)
		}
		for says, c := range map[string]sandbox.Command{
			`has a ".."`:               {Files: []sandbox.File{{Path: "a/../b"}}},
			"outside the workspace":    {Files: []sandbox.File{{Path: "/etc/x"}}},
			"has a NUL":                {Files: []sandbox.File{{Path: "a\x00"}}},
			"is a directory":           {Files: []sandbox.File{{Path: "a/"}}},
			`"." is a directory`:       {Files: []sandbox.File{{Path: "."}}},
			`"" is a directory`:        {Files: []sandbox.File{{Path: ""}}},
			"given twice":              {Files: []sandbox.File{{Path: "a"}, {Path: "/work/./a"}}},
			"directory of another":     {Files: []sandbox.File{{Path: "a/b/c"}, {Path: "a/b"}}},
			"over the limit of 16 MiB": {Files: []sandbox.File{{Path: "a", Content: make([]byte, 16<<20+1)}}},
			"over the limit of 1000":   {Files: make([]sandbox.File, 1001)},
			"a name in file":           {Files: []sandbox.File{{Path: strings.Repeat("a", 256)}}},
			"over the limit of 31":     {Files: []sandbox.File{{Path: strings.Repeat("a/", 32) + "a"}}},
			"to collect is absolute":   {Collect: []string{"/etc/passwd"}},
			"over the limit of 32":     {Collect: make([]string, 33)},
		} {
			r, _ := stage(t, 0, c)
			if started || r.Cause != sandbox.CauseInvalid || !strings.Contains(r.Message, says) {
				t.Errorf("%s: %s, started: %t", says, r.Message, started)
			}
		}
	})
}

// Files of the caller can be the programs that a rule names: a secret is not for them. In
// what is collected it is masked, also where the file is cut.
func TestCommandFilesAndSecrets(t *testing.T) {
	const secret = "sk-1234567890"
	list, contents := "T 81a4 30 0 ./a\nT 81a4 2000 0 ./b-"+secret+"\n", []string{"key: " + secret + ";", strings.Repeat("x", 1024-30-4) + secret[:4]}
	e := playing(func(p *sandboxtest.Proc) int {
		if !strings.HasPrefix(p.Script, "# ") {
			return 0
		}
		return collector{prints(list), func(p *sandboxtest.Proc, mark string) {
			fmt.Fprintf(p.Stdout, "%s\n%s:\n0\n", contents[0], mark)
			contents = contents[1:]
		}}.play(p)
	})
	l, a := newLocal(e), &auditor{}
	l.Auditor, l.Profiles["default"] = a, granting(t, secret, "API_KEY")
	_, err := l.Start(t.Context(), sandbox.Command{Script: "x", Files: []sandbox.File{{Path: "x"}}})
	if sandbox.CauseOf(err) != sandbox.CauseDenied || !strings.Contains(err.Error(), "files may decide") {
		t.Error(err)
	}
	r, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: "x", Collect: []string{"*"}, Limits: sandbox.Limits{Result: 1024}})
	if err != nil || len(r.Files) != 2 || r.Masked != 2 {
		t.Fatalf("%+v, %v: %s", r.Files, err, r.Evidence.CollectError)
	}
	if r.Files[0].Path != "a" || string(r.Files[0].Content) != "key: ***;" || r.Files[1].Path != "b-***" || strings.Contains(string(r.Files[1].Content), "s") {
		t.Errorf("%+v", r.Files)
	}
	if end := a.records[len(a.records)-1].End; cmp.Diff([]string{"a:19", "b-***:2000"}, end.Files) != "" {
		t.Errorf("recorded: %q", end.Files)
	}
}
