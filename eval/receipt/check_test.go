package receipt

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar/eval/run"
	"belljar/sandbox"
)

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

const answer = "print(1)\n"

func archive(files ...string) []byte { return archiveOf(0o644, files...) }

func archiveOf(mode int64, files ...string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: mode, Typeflag: tar.TypeReg})
		w.Write([]byte(files[i+1]))
	}
	w.Close()
	return b.Bytes()
}

// ran is the directory of a run of two tasks with two trials each.
func ran(t *testing.T) *run.Dir {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	r := run.Run{
		Version: run.Version, ID: "01j", Started: time.Date(2026, 11, 22, 19, 0, 0, 0, time.UTC), Belljar: "belljar 1", Trials: 2, Config: sum("config"), Suite: run.Suite{SHA256: sum("suite")}, Options: run.Options{Controls: true},
	}
	for _, id := range []string{"a", "b:/0"} {
		r.Tasks = append(r.Tasks, run.Task{ID: id, Source: "/suite/" + id, SHA256: sum(id), Image: "belljar/base", Digest: "sha256:" + sum("base"), Sealed: true, Images: []run.Image{{Name: "belljar/grader", Digest: "sha256:" + sum("grader")}},
			Files: []run.File{{Path: "/tests/one", SHA256: sum("one")}, {Path: "/tests/two", SHA256: sum("two")}}})
	}
	d, err := run.Create(path, r)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := []run.Verdict{run.Passed, run.Passed, run.Passed, run.Tampered}
	for i, key := range []run.Key{{Task: "a", Trial: 1}, {Task: "b:/0", Trial: 1}, {Task: "a", Trial: 2}, {Task: "b:/0", Trial: 2}} {
		var out sandbox.Output
		out.Head, out.Total = []byte("ok\n"), 3
		log, err := d.Log(key, 1, "verify.stdout", out)
		if err != nil {
			t.Fatal(err)
		}
		result := run.Result{
			Task: key.Task, Trial: key.Trial, Attempt: 1, Verdict: verdicts[i], Sealed: true, Phases: []run.Phase{{Name: run.Verify, Image: sum("grader"), Stdout: log}},
			Artifacts: []run.Artifact{{Path: "/work/a.py", Size: int64(len(answer)), Mode: "0644", SHA256: sum(answer)}},
		}
		if err := errors.Join(d.Keep(key, archive("work/a.py", answer)), d.Add(result)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return reopened(t, path)
}

func reopened(t *testing.T, path string) *run.Dir {
	t.Helper()
	d, err := run.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// unchanged is a host where nothing changed since the run.
func unchanged() Checks {
	return Checks{
		Task: func(t run.Task) (string, []run.File, error) { return sum(t.ID), t.Files, nil },
		Image: func(_ context.Context, name string) (string, error) {
			return "sha256:" + sum(strings.TrimPrefix(name, "belljar/")), nil
		},
		Audit: func(string) error { return nil },
	}
}

func made(t *testing.T, d *run.Dir) *Statement {
	t.Helper()
	s, err := Make(d, Options{Program: sum("belljar"), Audit: sum("audit")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.valid(); err != nil {
		t.Fatal(err)
	}
	return s
}

// of are the findings with a status, as lines.
func of(status Status, found []Finding) (lines []string) {
	for _, f := range found {
		if f.Status == status {
			lines = append(lines, strings.TrimSpace(f.What+" "+f.Name))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestMake(t *testing.T) {
	t.Parallel()
	d := ran(t)
	s := made(t, d)
	p := s.Predicate
	if p.Result != OutcomeFailed || fmt.Sprint(p.Passed) != "[a/1 a/2 b:/0/1]" || fmt.Sprint(p.Failed, p.Tampered, p.Warned, p.NotCounted) != "[b:/0/2] [b:/0/2] [] []" {
		t.Errorf("%+v", p)
	}
	var names []string
	for _, r := range append(slices.Clone(s.Subject), p.Configuration...) {
		if r.SHA256() == "" {
			t.Errorf("%s has no digest", r.Name)
		}
		names = append(names, r.Name)
	}
	for _, want := range []string{"run.json", "results.jsonl", "results.jsonl/b:/0/2", "artifacts/b:/0/1:/work/a.py", "belljar", "config", "suite", "audit", "task/a", "task/b:/0", "image/belljar/base", "image/belljar/grader"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
	if len(s.Subject) != 2+4+4 {
		t.Errorf("%d subjects", len(s.Subject))
	}
}

func TestCheckUnchanged(t *testing.T) {
	t.Parallel()
	d := ran(t)
	found, err := made(t, d).Check(t.Context(), d, unchanged())
	if err != nil {
		t.Fatal(err)
	}
	if differs := of(Differs, found); len(differs) > 0 {
		t.Errorf("differs: %q", differs)
	}
	if un := of(Unchecked, found); fmt.Sprint(un) != "[belljar belljar 1]" {
		t.Errorf("unchecked: %q", un)
	}
	if n := len(of(Matches, found)); n != 2+4+4+4+2+2+1+2 { // files, lines, artifacts, logs, tasks, images, audit, config and suite
		t.Errorf("%d match: %q", n, of(Matches, found))
	}
}

func edit(t *testing.T, d *run.Dir, name, from, to string) {
	t.Helper()
	name = filepath.Join(d.Path, name)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(from)) {
		t.Fatalf("no %q in %s", from, text)
	}
	if err := os.WriteFile(name, bytes.Replace(text, []byte(from), []byte(to), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each change is named, and nothing else is.
func TestCheckChanged(t *testing.T) {
	t.Parallel()
	put := func(t *testing.T, name string, do func(name string) error) {
		t.Helper()
		os.Remove(name)
		if err := do(name); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text []byte) func(string) error {
		return func(name string) error { return os.WriteFile(name, text, 0o600) }
	}
	first := run.Key{Task: "a", Trial: 1}
	for name, c := range map[string]struct {
		change func(t *testing.T, d *run.Dir, with *Checks)
		want   []string
	}{
		"a verdict": {func(t *testing.T, d *run.Dir, _ *Checks) {
			edit(t, d, run.ResultsFile, `"tampered"`, `"passed"`)
		}, []string{"file results.jsonl", "result PASSED", "result line b:/0/2", "verdict b:/0/2"}},
		"a duration": {func(t *testing.T, d *run.Dir, _ *Checks) {
			edit(t, d, run.ResultsFile, `"duration_ms":0`, `"duration_ms":1`)
		}, []string{"file results.jsonl", "result line a/1"}},
		"a line removed": {func(t *testing.T, d *run.Dir, _ *Checks) {
			text, _ := os.ReadFile(filepath.Join(d.Path, run.ResultsFile))
			lines := strings.SplitAfter(string(text), "\n")
			put(t, filepath.Join(d.Path, run.ResultsFile), write([]byte(strings.Join(lines[:3], ""))))
		}, []string{"artifact b:/0/2:/work/a.py", "file results.jsonl", "result WARNED", "result line b:/0/2", "verdict b:/0/2"}},
		"a line repeated": {func(t *testing.T, d *run.Dir, _ *Checks) {
			text, _ := os.ReadFile(filepath.Join(d.Path, run.ResultsFile))
			line, _, _ := strings.Cut(string(text), "\n")
			put(t, filepath.Join(d.Path, run.ResultsFile), write(append([]byte(strings.Replace(line, `"passed"`, `"failed"`, 1)+"\n"), text...)))
		}, []string{"file results.jsonl"}},
		"run.json": {func(t *testing.T, d *run.Dir, _ *Checks) {
			edit(t, d, run.RunFile, "belljar 1", "belljar 2")
		}, []string{"file run.json"}},
		"a task in run.json": {func(t *testing.T, d *run.Dir, _ *Checks) {
			edit(t, d, run.RunFile, sum("a"), sum("c"))
		}, []string{"file run.json", "task a"}},
		"an artifact": {func(t *testing.T, d *run.Dir, _ *Checks) {
			put(t, d.ArtifactsFile(first), write(archive("work/a.py", "print(2)\n")))
		}, []string{"artifact a/1:/work/a.py"}},
		"a mode": {func(t *testing.T, d *run.Dir, _ *Checks) {
			put(t, d.ArtifactsFile(first), write(archiveOf(0o777, "work/a.py", answer)))
		}, []string{"artifact a/1:/work/a.py"}},
		"an artifact added": {func(t *testing.T, d *run.Dir, _ *Checks) {
			put(t, d.ArtifactsFile(first), write(archive("work/a.py", answer, "work/b.py", answer)))
		}, []string{"artifact a/1:/work/b.py"}},
		"an artifact removed": {func(t *testing.T, d *run.Dir, _ *Checks) {
			put(t, d.ArtifactsFile(first), write(archive()))
		}, []string{"artifact a/1:/work/a.py"}},
		"no archive":  {func(_ *testing.T, d *run.Dir, _ *Checks) { os.Remove(d.ArtifactsFile(first)) }, []string{"artifact a/1:/work/a.py"}},
		"archive cut": {func(_ *testing.T, d *run.Dir, _ *Checks) { os.Truncate(d.ArtifactsFile(first), 515) }, []string{"artifacts a/1"}},
		"archive FIFO": {func(t *testing.T, d *run.Dir, _ *Checks) {
			put(t, d.ArtifactsFile(first), func(n string) error { return syscall.Mkfifo(n, 0o600) })
		}, []string{"artifacts a/1"}},
		"archive link": {func(t *testing.T, d *run.Dir, _ *Checks) {
			put(t, d.ArtifactsFile(first), func(n string) error { return os.Symlink(d.ArtifactsFile(run.Key{Task: "a", Trial: 2}), n) })
		}, []string{"artifacts a/1"}},
		"file twice": {func(t *testing.T, d *run.Dir, _ *Checks) {
			put(t, d.ArtifactsFile(first), write(archive("work/a.py", "x", "work/a.py", answer)))
		}, []string{"artifacts a/1"}},
		"sparse archive": {func(t *testing.T, d *run.Dir, _ *Checks) {
			put(t, d.ArtifactsFile(first), func(n string) error {
				return errors.Join(os.WriteFile(n, nil, 0o600), os.Truncate(n, 1<<40))
			})
		}, []string{"artifact a/1:/work/a.py"}},
		"link in the archive": {func(t *testing.T, d *run.Dir, _ *Checks) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			w.WriteHeader(&tar.Header{Name: "work/a.py", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink})
			w.Close()
			put(t, d.ArtifactsFile(first), write(b.Bytes()))
		}, []string{"artifacts a/1"}},
		"a log": {func(t *testing.T, d *run.Dir, _ *Checks) { edit(t, d, "logs/a/1/01-verify.stdout", "ok\n", "no\n") }, []string{"log logs/a/1/01-verify.stdout"}},
		"a log removed": {func(_ *testing.T, d *run.Dir, _ *Checks) {
			os.Remove(filepath.Join(d.Path, "logs/a/1/01-verify.stdout"))
		}, []string{"log logs/a/1/01-verify.stdout"}},
		"an image": {func(_ *testing.T, _ *run.Dir, with *Checks) {
			with.Image = func(context.Context, string) (string, error) { return "sha256:" + sum("new"), nil }
		}, []string{"image belljar/base", "image belljar/grader"}},
		"a test file": {func(_ *testing.T, _ *run.Dir, with *Checks) {
			with.Task = func(t run.Task) (string, []run.File, error) {
				if t.ID == "a" {
					return sum("x"), []run.File{{Path: "/tests/one", SHA256: sum("1")}, {Path: "/tests/three", SHA256: sum("3")}}, nil
				}
				return sum(t.ID), t.Files, nil
			}
		}, []string{"task file a:/tests/one", "task file a:/tests/three", "task file a:/tests/two"}},
		"a task's settings": {func(_ *testing.T, _ *run.Dir, with *Checks) {
			with.Task = func(t run.Task) (string, []run.File, error) { return sum(t.ID + "!"), t.Files, nil }
		}, []string{"task a", "task b:/0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, with := ran(t), unchanged()
			s := made(t, d)
			c.change(t, d, &with)
			found, err := s.Check(t.Context(), reopened(t, d.Path), with)
			if err != nil {
				t.Fatal(err)
			}
			if got := of(Differs, found); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What cannot be compared is said, and is no match.
func TestCheckUnchecked(t *testing.T) {
	t.Parallel()
	d := ran(t)
	s := made(t, d)
	found, err := s.Check(t.Context(), d, Checks{
		Task:  func(run.Task) (string, []run.File, error) { return "", nil, errors.New("gone") },
		Image: func(context.Context, string) (string, error) { return "", errors.New("no engine") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := of(Unchecked, found); fmt.Sprint(got) != "[audit sha256:"+sum("audit")+" belljar belljar 1 image belljar/base image belljar/grader task a task b:/0]" {
		t.Errorf("%q", got)
	}
	if got := of(Differs, found); len(got) > 0 {
		t.Errorf("%q", got)
	}
	other := ran(t)
	other.Run.ID = "02j"
	if found, err = s.Check(t.Context(), other, unchanged()); err != nil || !slices.Contains(of(Differs, found), "run 02j") {
		t.Errorf("another run: %+v, %v", found, err)
	}
}

// A trial that run.json does not have is no belljar's, and gets no receipt.
func TestMakeRefuses(t *testing.T) {
	t.Parallel()
	d := ran(t)
	edit(t, d, run.ResultsFile, `"task":"a","trial":1`, `"task":"a","trial":9`)
	if _, err := Make(reopened(t, d.Path), Options{}); err == nil || !strings.Contains(err.Error(), "trial 9") {
		t.Errorf("%v", err)
	}
}

func TestPredicate(t *testing.T) {
	t.Parallel()
	pass, unsealed, lost := run.Result{Verdict: run.Passed, Sealed: true}, run.Result{Verdict: run.Passed}, run.Result{Verdict: run.Error, Side: run.Infrastructure, Sealed: true}
	for name, c := range map[string]struct {
		results []run.Result
		want    Outcome
	}{
		"all":         {[]run.Result{pass, pass}, OutcomePassed},
		"unsealed":    {[]run.Result{pass, unsealed}, OutcomeWarned},
		"lost":        {[]run.Result{pass, lost}, OutcomeWarned},
		"not ended":   {[]run.Result{pass}, OutcomeWarned},
		"failed":      {[]run.Result{pass, {Verdict: run.Failed, Sealed: true}}, OutcomeFailed},
		"unknown":     {[]run.Result{pass, {Verdict: "great", Sealed: true}}, OutcomeFailed},
		"agent error": {[]run.Result{pass, {Verdict: run.Error, Side: run.BySolution, Sealed: true}}, OutcomeFailed},
		"only lost":   {[]run.Result{lost, lost}, OutcomeFailed},
		"none":        {nil, OutcomeFailed},
	} {
		var lines []line
		for i, r := range c.results {
			r.Task, r.Trial = "a", i+1
			lines = append(lines, line{Result: r})
		}
		r := run.Run{Trials: 2, Tasks: []run.Task{{ID: "a"}}, Options: run.Options{Controls: true}}
		if p := predicate(r, lines); p.Result != c.want {
			t.Errorf("%s: %s, want %s", name, p.Result, c.want)
		}
		r.Options.Controls = false
		if p := predicate(r, lines); p.Result == OutcomePassed || len(p.Passed) > 0 {
			t.Errorf("%s, without controls: %s", name, p.Result)
		}
	}
}

// An image that no task names is in results.jsonl alone, which says nothing about itself.
func TestCheckUnnamedImage(t *testing.T) {
	t.Parallel()
	d := ran(t)
	edit(t, d, run.ResultsFile, sum("grader"), sum("other"))
	d = reopened(t, d.Path)
	found, err := made(t, d).Check(t.Context(), d, unchanged())
	if err != nil || !slices.Contains(of(Unchecked, found), "image sha256:"+sum("other")) {
		t.Errorf("%q, %v", of(Unchecked, found), err)
	}
}
