package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belljar/sandbox"
)

// made is the directory of a run with one result.
func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	r, result := example()
	d, err := Create(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Add(result); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A run's directory may have been changed by anyone. Reading it neither waits, nor takes
// all memory, nor reads another file.
func TestReadHostile(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	good, err := os.ReadFile(filepath.Join(made(t), RunFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(elsewhere, good, 0o600); err != nil {
		t.Fatal(err)
	}
	huge := func(name string, size int64) error {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
		return os.Truncate(name, size)
	}
	for _, file := range []string{RunFile, ResultsFile} {
		for what, c := range map[string]struct {
			put  func(name string) error
			want string
		}{
			"FIFO":          {func(name string) error { return syscall.Mkfifo(name, 0o600) }, "not a regular file"},
			"directory":     {func(name string) error { return os.Mkdir(name, 0o700) }, "not a regular file"},
			"link":          {func(name string) error { return os.Symlink(elsewhere, name) }, "not a regular file"},
			"relative link": {func(name string) error { return os.Symlink("../../elsewhere", name) }, "not a regular file"},
			"link inside": {func(name string) error {
				return errors.Join(os.WriteFile(name+".x", good, 0o600), os.Symlink(filepath.Base(name)+".x", name))
			}, "not a regular file"},
			"device":     {func(name string) error { return os.Symlink("/dev/zero", name) }, "not a regular file"},
			"huge":       {func(name string) error { return huge(name, 2<<30) }, "over"},
			"no JSON":    {func(name string) error { return os.WriteFile(name, []byte("\xff\x00{]\n"), 0o600) }, "reading"},
			"deep":       {func(name string) error { return os.WriteFile(name, []byte(strings.Repeat("[", 1<<20)+"\n"), 0o600) }, "reading"},
			"wrong type": {func(name string) error { return os.WriteFile(name, []byte(`{"trials":"x","trial":"y"}`+"\n"), 0o600) }, "reading"},
		} {
			t.Run(file+"/"+what, func(t *testing.T) {
				t.Parallel()
				dir := made(t)
				name := filepath.Join(dir, file)
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
				if err := c.put(name); err != nil {
					t.Fatal(err)
				}
				d, err := Open(dir)
				if err == nil {
					_, err = d.Results()
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || sandbox.CauseOf(err) != sandbox.CauseInvalid {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		}
	}
	dir := made(t)
	crowd, _ := example()
	crowd.Tasks, crowd.Trials = make([]Task, 300), 1<<16
	text, err := json.Marshal(crowd)
	if err != nil {
		t.Fatal(err)
	}
	many := string(text)
	if _, err := Create(t.TempDir(), crowd); err == nil || !strings.Contains(err.Error(), "--shard") {
		t.Errorf("a run that no one can read is made: %v", err)
	}
	for text, want := range map[string]string{
		strings.Replace(string(good), `"trials": 2`, `"trials": 1000000000`, 1): "1000000000 trials of each of 1 tasks",
		strings.Replace(string(good), `"trials": 2`, `"trials": -1`, 1):         "-1 trials",
		strings.Replace(string(good), `"version": 1`, `"version": 7`, 1):        "version 7",
		strings.Replace(string(good), `"01jexample"`, `"x/../../home/*"`, 1):    "the run's ID",
		many: "trials of each of 300 tasks",
	} {
		if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Logs are opened below the run's directory only, whatever a line of results.jsonl says.
func TestOpenBelow(t *testing.T) {
	t.Parallel()
	dir := made(t)
	if err := os.Symlink("/etc", filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../" + filepath.Base(dir) + "/run.json", "/etc/passwd", "logs/passwd", "logs/../../../../../../etc/passwd", "", "."} {
		if f, err := d.Open(name); err == nil {
			f.Close()
			t.Errorf("%q was opened", name)
		}
	}
}

// Whatever a solution has a result list, the run stays readable, and it gets no way out of the denominator.
func TestLongResults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\x01", 4<<20)
	for what, c := range map[string]struct {
		change func(*Result)
		want   Verdict
	}{
		"lingering": {func(r *Result) { r.Lingering = []sandbox.Process{{Command: long}} }, Passed},
		"refused":   {func(r *Result) { r.Refused = []string{long} }, Passed},
		"message":   {func(r *Result) { r.Message = long }, Passed},
		"artifacts": {func(r *Result) { r.Artifacts = []Artifact{{Path: long}} }, Failed},
		"an error":  {func(r *Result) { r.Verdict, r.Side, r.Artifacts = Error, ByTask, []Artifact{{Path: long}} }, Error},
	} {
		dir := t.TempDir()
		r, result := example()
		d, err := Create(dir, r)
		if err != nil {
			t.Fatal(err)
		}
		result.Verdict, result.Side = Passed, ""
		c.change(&result)
		next := Result{Task: "add", Trial: 2, Verdict: Passed}
		if err := errors.Join(d.Add(result), d.Add(next), d.Close()); err != nil {
			t.Fatal(err)
		}
		if d, err = Continue(dir); err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		list, err := d.Results()
		if err != nil || len(list) != 2 || list[0].Verdict != c.want || list[1].Verdict != Passed || len(fmt.Sprint(list[0])) > 1<<20 {
			t.Errorf("%s: %d results, %v", what, len(list), err)
		}
		d.Close()
	}
	_, result := example()
	result.Refused = []string{strings.Repeat("x", 1<<20)}
	if text, err := readable(result, maxResults/2+1); err != nil || len(text) > usualLine {
		t.Errorf("a long line in a long file: %d bytes, %v", len(text), err)
	}
	if _, err := readable(result, maxResults-100); err == nil || !strings.Contains(err.Error(), "--shard") {
		t.Errorf("a file that is full: %v", err)
	}
}
