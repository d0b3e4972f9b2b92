package run

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar/sandbox"
)

// shardsOf are two shards of a run of three tasks, each with a log and an archive.
func shardsOf(t *testing.T, change func(i int, r *Run)) (shards []*Dir) {
	t.Helper()
	tasks := []Task{{ID: "a", SHA256: "aa", Image: "i", Digest: "d"}, {ID: "b/1", SHA256: "bb", Image: "i", Digest: "d"}, {ID: "c", SHA256: "cc"}}
	for i, part := range [][]Task{{tasks[0], tasks[2]}, {tasks[1]}} {
		r, result := example()
		r.ID, r.Tasks, r.Trials, r.Options.Shard = "shard", append([]Task{}, part...), 1, []string{"1/2", "2/2"}[i]
		r.Suite = Suite{SHA256: Digest(part), All: Digest(tasks)}
		if change != nil {
			change(i, &r)
		}
		d, err := Create(filepath.Join(t.TempDir(), "shard"), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range part {
			result.Task, result.Attempt = task.ID, 1
			key := result.Key()
			if result.Phases[0].Stdout, err = d.Log(key, 1, "verify.stdout", sandbox.Output{Head: []byte("ok " + task.ID)}); err == nil {
				result.Phases[0].Stderr = Output{}
				err = d.Keep(key, []byte("archive of "+task.ID))
			}
			for range 2 { // the second counts
				if err == nil {
					err = d.Add(result)
				}
				result.Attempt++
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		d.Close()
		if d, err = Open(d.Path); err != nil {
			t.Fatal(err)
		}
		shards = append(shards, d)
	}
	return shards
}

func TestMerge(t *testing.T) {
	t.Parallel()
	shards := shardsOf(t, nil)
	out := filepath.Join(t.TempDir(), "all")
	d, err := Merge(out, "merged", []*Dir{shards[1], shards[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, err := d.Results()
	if err != nil || len(list) != 3 || len(d.Run.Tasks) != 3 || d.Run.Tasks[1].ID != "b/1" || d.Run.Options.Shard != "" || d.Run.Suite.SHA256 != d.Run.Suite.All {
		t.Errorf("%d results, %+v, %v", len(list), d.Run, err)
	}
	for _, r := range list {
		log, err := os.ReadFile(filepath.Join(out, r.Phases[0].Stdout.Log))
		archive, failed := os.ReadFile(d.ArtifactsFile(r.Key()))
		if string(log) != "ok "+r.Task || string(archive) != "archive of "+r.Task || r.Attempt != 2 {
			t.Errorf("%s, attempt %d: %q, %v, %q, %v", r.Task, r.Attempt, log, err, archive, failed)
		}
	}
}

// What is no shard of the same run is refused, and leaves nothing.
func TestMergeRefuses(t *testing.T) {
	t.Parallel()
	second := func(change func(r *Run)) func(int, *Run) {
		return func(i int, r *Run) {
			if i == 1 {
				change(r)
			}
		}
	}
	replaced := func(s *Dir, name string, old, with string) {
		file := filepath.Join(s.Path, name)
		text, err := os.ReadFile(file)
		if err == nil && !strings.Contains(string(text), old) {
			t.Errorf("%s has no %q", name, old)
		}
		os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, with)), 0o600)
	}
	for want, c := range map[string]struct {
		change func(int, *Run)
		spoil  func(s []*Dir) []*Dir
	}{
		"different suites":             {second(func(r *Run) { r.Suite.All = "other" }), nil},
		"different settings":           {second(func(r *Run) { r.Config = "other" }), nil},
		"different options":            {second(func(r *Run) { r.Options.Controls = false }), nil},
		"different agents":             {second(func(r *Run) { r.Agent.Command = []string{"other"} }), nil},
		"different answers":            {second(func(r *Run) { r.Agent.SHA256 = "other" }), nil},
		"different numbers of trials":  {second(func(r *Run) { r.Trials = 2 }), nil},
		"different versions":           {second(func(r *Run) { r.Belljar = "other" }), nil},
		`image "v" is not the same`:    {func(i int, r *Run) { r.Tasks[0].Images = []Image{{"v", []string{"1", "2"}[i]}} }, nil},
		`image "i" is not the same`:    {second(func(r *Run) { r.Tasks[0].Digest = "other" }), nil},
		"are not the suite":            {second(func(r *Run) { r.Tasks[0].SHA256 = "other" }), nil},
		"both are shard 1/2":           {nil, func(s []*Dir) []*Dir { return []*Dir{s[0], s[0], s[1]} }},
		"shard 2/2 is missing":         {nil, func(s []*Dir) []*Dir { return s[:1] }},
		"shard 1/2 is missing":         {nil, func(s []*Dir) []*Dir { return s[1:] }},
		"is not a shard":               {func(_ int, r *Run) { r.Options.Shard = "" }, nil},
		"which run.json does not have": {nil, func(s []*Dir) []*Dir { replaced(s[1], ResultsFile, `"task":"b/1"`, `"task":"a"`); return s }},
		"another digest than its result": {nil, func(s []*Dir) []*Dir {
			replaced(s[0], "logs/a/1/01-verify.stdout", "ok", "no")
			return s
		}},
		"as a log of": {nil, func(s []*Dir) []*Dir {
			replaced(s[0], ResultsFile, "logs/a/1/01-verify.stdout", "logs/a/1/../../../run.json")
			return s
		}},
		"not a regular file": {nil, func(s []*Dir) []*Dir {
			os.Remove(s[0].ArtifactsFile(Key{"a", 1}))
			os.Symlink("/etc/passwd", s[0].ArtifactsFile(Key{"a", 1}))
			return s
		}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			shards := shardsOf(t, c.change)
			if c.spoil != nil {
				shards = c.spoil(shards)
			}
			out := filepath.Join(t.TempDir(), "all")
			_, err := Merge(out, "merged", shards)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if left, _ := filepath.Glob(out); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A merge that is killed leaves no run: resume would solve again what the shards have.
func TestMergeKilled(t *testing.T) {
	if out := os.Getenv("TEST_MERGE_INTO"); out != "" { // the one that is killed
		var shards []*Dir
		for _, name := range strings.Fields(os.Getenv("TEST_MERGE_SHARDS")) {
			d, err := Open(name)
			if err != nil {
				t.Fatal(err)
			}
			shards = append(shards, d)
		}
		_, err := Merge(out, "merged", shards)
		t.Fatalf("it ended: %v", err)
	}
	t.Parallel()
	shards := shardsOf(t, nil)
	last := Key{"b/1", 1}
	if err := os.Truncate(shards[1].ArtifactsFile(last), 2<<30); err != nil { // which takes seconds to copy
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "all")
	var said bytes.Buffer
	cmd := exec.Command(os.Args[0], "-test.run", "^TestMergeKilled$")
	cmd.Env, cmd.Stdout = append(os.Environ(), "TEST_MERGE_INTO="+out, "TEST_MERGE_SHARDS="+shards[0].Path+" "+shards[1].Path), &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("%v: %s", err, said.String())
		default:
		}
		_, err := os.Stat((&Dir{Path: out}).ArtifactsFile(last))
		begun = err == nil
	}
	cmd.Process.Kill()
	if <-ended; said.Len() > 0 {
		t.Fatal(said.String())
	}
	if _, err := Open(out); err == nil || !strings.Contains(err.Error(), "it is not a run's") {
		t.Errorf("error %v", err)
	}
}

// Of several that begin a run in one directory one does, also if it has ended before the next one looks.
func TestCreateTogether(t *testing.T) {
	t.Parallel()
	r, _ := example()
	for range 50 {
		dir, won, all := filepath.Join(t.TempDir(), "run"), atomic.Int32{}, sync.WaitGroup{}
		for range 8 {
			all.Go(func() {
				if d, err := Create(dir, r); err == nil {
					won.Add(1)
					d.Close()
				}
			})
		}
		if all.Wait(); won.Load() != 1 {
			t.Fatalf("%d began", won.Load())
		}
	}
}

// A belljar that was killed before it wrote run.json left nothing that counts.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{ResultsFile, RunFile + ".new"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, result := example()
	d, err := Create(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Add(result); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, r); err == nil {
		t.Error("a run is begun over another")
	}
}
