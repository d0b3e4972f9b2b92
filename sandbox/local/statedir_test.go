package local_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// filesBelow is every file and directory below dir, with what it holds.
func filesBelow(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		text := []byte(nil)
		if err == nil && entry.Type().IsRegular() {
			text, err = os.ReadFile(path)
		}
		all.WriteString(path + "\n" + string(text) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// Without a state directory the working directory was taken for one: sessions that
// were planted there ended others, and what it had was expired and removed.
func TestNoStateDirectoryIsNone(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	const old = `"2001-01-01T00:00:00Z"`
	for name, text := range map[string]string{
		"sessions/dev.json":      `{"session":"dev","container":"x","created":` + old + `,"last_used":` + old + `,"deadline":` + old + `,"idle":1}`,
		"sessions/mine.json":     "{}",
		"sessions/lock":          "",
		"spool/01A/command.json": `{"id":"01A","command":"x","started":` + old + `,"ended":` + old + `,"expires":` + old + `}`,
		"01A/command.json":       `{"id":"01A","command":"x","started":` + old + `,"ended":` + old + `,"expires":"2999-01-01T00:00:00Z"}`,
		"01A/stdout":             "planted",
		"audit/audit.jsonl":      "mine",
		"dev.json":               "mine",
		".swept":                 "mine",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := filesBelow(t, work)
	engine := &sandboxtest.Engine{}
	runner := newLocal(engine)
	runner.StateDir, runner.Spool = "", sandbox.Spooling{Total: 1 << 20, Age: time.Hour}
	defer runner.Close()
	runner.Warm()
	if n, err := runner.ExpireSessions(t.Context()); n != 0 || err != nil {
		t.Error(n, err)
	}
	if err := runner.SweepLogs(t.Context()); err != nil {
		t.Error(err)
	}
	if list, err := runner.Sessions(t.Context()); len(list) != 0 || err != nil {
		t.Error(list, err)
	}
	if list, err := runner.Logs(t.Context()); len(list) != 0 || err != nil {
		t.Error(list, err)
	}
	if _, err := runner.LogInfo(t.Context(), "01A"); err == nil {
		t.Error("a planted output is shown")
	}
	if _, err := runner.ReadLog(t.Context(), "01A", sandbox.Stdout, 0); err == nil {
		t.Error("a planted output is read")
	}
	if err := runner.RemoveSession(t.Context(), "dev"); err == nil || !strings.Contains(err.Error(), "XDG_STATE_HOME") {
		t.Error(err)
	}
	if _, err := runner.Start(t.Context(), sandbox.Command{Script: "x", Session: "dev"}); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Error(err)
	}
	if after := filesBelow(t, work); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// A spool that was a link had outputs written, and removed, elsewhere; one that
// others may write had theirs.
func TestStateDirectoriesAreTheUsersOwn(t *testing.T) {
	for name, spoil := range map[string]func(state string) error{
		"a link": func(state string) error {
			return os.Symlink(filepath.Dir(state), filepath.Join(state, "NAME"))
		},
		"all may write": func(state string) error {
			dir := filepath.Join(state, "NAME")
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777))
		},
		"all may write above": func(state string) error { return os.Chmod(state, 0o777) },
		"another's": func(state string) error {
			dir := filepath.Join(state, "NAME")
			return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, 12345))
		},
	} {
		if name == "another's" && os.Getuid() != 0 {
			continue
		}
		state := filepath.Join(t.TempDir(), "state")
		t.Setenv("TMPDIR", t.TempDir())
		if err := os.Mkdir(state, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := spoil(state); err != nil {
			t.Fatal(err)
		}
		for _, of := range []string{"spool", "sessions"} {
			if err := os.Rename(filepath.Join(state, "NAME"), filepath.Join(state, of)); err != nil && name != "all may write above" {
				t.Fatal(err)
			}
			before := filesBelow(t, filepath.Dir(state))
			runner := newLocal(&sandboxtest.Engine{})
			runner.StateDir, runner.Spool = state, sandbox.Spooling{Total: 1 << 20, Age: time.Hour}
			c := sandbox.Command{Script: "x"}
			if of == "sessions" {
				c.Session = "dev"
			}
			var text string
			if x, err := runner.Start(t.Context(), c); err != nil {
				text = err.Error()
			} else {
				for event := range x.Events() {
					text += string(event.Data)
					if event.Result != nil {
						text += event.Result.Message
					}
				}
			}
			if !strings.Contains(text, "the state directory's") {
				t.Errorf("%s, %s: %s", of, name, text)
			}
			if of == "spool" {
				if _, err := runner.Logs(t.Context()); err == nil {
					t.Errorf("%s, %s: outputs are listed", of, name)
				}
				if err := runner.SweepLogs(t.Context()); err == nil {
					t.Errorf("%s, %s: outputs are swept", of, name)
				}
				if after := filesBelow(t, filepath.Dir(state)); after != before {
					t.Errorf("%s, %s: before:\n%s\nafter:\n%s", of, name, before, after)
				}
			} else if _, err := runner.ExpireSessions(t.Context()); err == nil {
				t.Errorf("%s, %s: sessions are expired", of, name)
			}
			runner.Close()
			if err := os.Rename(filepath.Join(state, of), filepath.Join(state, "NAME")); err != nil && name != "all may write above" {
				t.Fatal(err)
			}
		}
	}
}
