package run

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
)

var update = flag.Bool("update", false, "write the golden files")

// example has a value in every field.
func example() (Run, Result) {
	started := time.Date(2026, 11, 22, 19, 0, 0, 0, time.UTC)
	reward := 0.5
	r := Run{
		Version: Version, ID: "01jexample", Started: started, Belljar: "belljar 1.0",
		Suite: Suite{Paths: []string{"/suite"}, SHA256: "aa", All: "ab"},
		Agent: Agent{Kind: Program, Command: []string{"agent", "--fast"}, Dir: "/project", Path: "/answers", SHA256: "bb"}, Trials: 2, Config: "cc",
		Options: Options{Controls: true, AllowShared: true, Retries: 1, Filter: "a*", Shard: "1/2"},
		Tasks:   []Task{{ID: "add", Source: "/suite/add", SHA256: "dd", Image: "belljar/debian", Digest: "sha256:ee", Images: []Image{{"belljar/verifier", "sha256:ed"}}, Grading: ByReward, Sealed: true, Notices: []string{"network: none"}, Files: []File{{Path: "/tests/test.sh", SHA256: "ff"}}}},
		Notices: []string{"one core"},
	}
	process := sandbox.Process{PID: 7, PPID: 1, PGID: 7, UID: 65534, User: "nobody", State: "S", Command: "sleep 100"}
	evidence := sandbox.Evidence{OOMKills: 1, Source: "cgroup"}
	out := Output{Bytes: 3, SHA256: "ff", Tail: "ok\n", Log: "logs/add/1/verify.stdout"}
	result := Result{
		Task: "add", Trial: 1, Attempt: 2, Verdict: Tampered, Side: BySolution, Phase: Check, Cause: sandbox.CauseExited, Message: "control \"failing\" passed",
		Reward: &reward, Rewards: map[string]float64{"reward": 0.5}, Sealed: true, Started: started, Millis: 1234.5,
		Steps:    []Step{{Name: "one", Verdict: Passed, Message: "m", Reward: &reward, Rewards: map[string]float64{"reward": 0.5}, Millis: 2}},
		Phases:   []Phase{{Name: Check, Detail: "failing", Status: sandbox.StatusSuccess, Cause: sandbox.CauseExited, Signal: "SIGKILL", Message: "m", Millis: 12.5, Evidence: evidence, Resources: sandbox.Resources{CPUSeconds: 0.1, MaxMemoryBytes: 9}, Lingering: 1, Container: "c0", Image: "sha256:ee", Stdout: out, Stderr: out}},
		Controls: []Control{{Name: "failing", Passed: true, Skipped: "s", Message: "exit status 0"}}, Artifacts: []Artifact{{Path: "/work/a.py", Size: 3, Mode: "0644", SHA256: "ff"}},
		Refused: []string{"/work/link: it is a symbolic link"}, Lingering: []sandbox.Process{process}, Notices: []string{"n"},
	}
	return r, result
}

// What these files look like is a promise to all who read them.
func TestGolden(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r, result := example()
	for _, v := range []reflect.Value{reflect.ValueOf(r), reflect.ValueOf(result)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("the example has no %s", v.Type().Field(i).Name)
			}
		}
	}
	d, err := Create(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	empty := Result{Task: "add", Trial: 2, Attempt: 1, Verdict: Error, Side: Infrastructure}
	for _, r := range []Result{result, empty} {
		if err := d.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{RunFile, ResultsFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			os.MkdirAll("testdata", 0o755)
			os.WriteFile(golden, text, 0o644)
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(want) != string(text) {
			t.Errorf("%s (%v) is now\n%s", golden, err, text)
		}
	}
	back, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := back.Results()
	if err != nil || len(list) != 2 || !reflect.DeepEqual(list[0], result) || !reflect.DeepEqual(back.Run, r) {
		t.Errorf("read back: %+v, %+v, %v", back.Run, list, err)
	}
	if list[1].Counts() || !result.Counts() {
		t.Error("an infrastructure's failure counts, or a tampered trial does not")
	}
}

func TestContinue(t *testing.T) {
	dir := t.TempDir()
	r, result := example()
	d, err := Create(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Add(result); err != nil {
		t.Fatal(err)
	}
	if _, err := Continue(dir); sandbox.CauseOf(err) != sandbox.CauseBusy {
		t.Errorf("a second writer: %v", err)
	}
	if _, err := Create(dir, r); err == nil || !strings.Contains(err.Error(), "eval resume") {
		t.Errorf("a second run: %v", err)
	}
	d.results.WriteString(`{"task":"add","trial":2,"verd`) // a crash
	d.Close()
	if d, err = Continue(dir); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	result.Trial = 2
	if err := d.Add(result); err != nil {
		t.Fatal(err)
	}
	result.Trial, result.Verdict = 1, Passed // tried again
	if err := d.Add(result); err != nil {
		t.Fatal(err)
	}
	list, err := d.Results()
	if err != nil || len(list) != 2 || list[0].Verdict != Passed || list[1].Trial != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := Open(t.TempDir()); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("another directory: %v", err)
	}
}

// What an attempt left that does not count is gone, also its archive: no line names it.
func TestForget(t *testing.T) {
	t.Parallel()
	r, result := example()
	d, err := Create(t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 { // the second time nothing is there
		if err := d.Forget(result.Key()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(d.ArtifactsFile(result.Key())); err == nil {
			t.Error("the archive is still there")
		}
		if err := d.Keep(result.Key(), []byte("archive")); err != nil {
			t.Fatal(err)
		}
	}
}

// A log that cannot be written is not named: who reads the result would miss it.
func TestLogNotWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, result := example()
	d, err := Create(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.WriteFile(filepath.Join(dir, Logs), nil, 0o600); err != nil { // where a directory is to be
		t.Fatal(err)
	}
	out, err := d.Log(result.Key(), 1, "verify.stdout", sandbox.Output{Head: []byte("ok"), Total: 2})
	if err == nil || out.Log != "" || out.SHA256 != "" || out.Tail != "ok" || out.Bytes != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}
