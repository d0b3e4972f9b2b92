package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
)

func newLog(t testing.TB) *Log {
	t.Helper()
	top := t.TempDir()
	if err := os.Chmod(top, 0o700); err != nil { // regardless of the umask
		t.Fatal(err)
	}
	dir := filepath.Join(top, "state", "audit")
	return &Log{File: filepath.Join(dir, "audit.jsonl")}
}

// entry is the record of a command with that ID.
func entry(id string) sandbox.AuditRecord {
	return sandbox.AuditRecord{Type: "decision", Time: time.Unix(1, 0).UTC(), ID: id, Script: "echo " + id, Decision: &sandbox.AuditDecision{Decision: sandbox.Allow}}
}

func add(t testing.TB, l *Log, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := l.Record(entry(id)); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// verify returns all findings.
func verify(t testing.TB, l *Log) (Summary, []string) {
	t.Helper()
	var list []string
	s, err := Verify(l.File, "", func(f Finding) {
		text := f.String()
		if f.Warning {
			text = "warning: " + text
		}
		list = append(list, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, list
}

func wantFound(t testing.TB, l *Log, want ...string) Summary {
	t.Helper()
	s, got := verify(t, l)
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return s
}

func wantRecords(t testing.TB, l *Log, n int64, want ...string) Summary {
	t.Helper()
	s := wantFound(t, l, want...)
	if s.Records != n || s.Last != s.First+uint64(n)-1 || s.Bad != 0 {
		t.Errorf("%+v, want %d records", s, n)
	}
	return s
}

func TestRecord(t *testing.T) {
	l := newLog(t)
	add(t, l, "a", "b")
	lines := bytes.SplitAfter(read(t, l.File), []byte("\n"))
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	for i, prev := range []string{none, digest(bytes.TrimSuffix(lines[0], []byte("\n")))} {
		var got map[string]any
		if err := json.Unmarshal(lines[i], &got); err != nil {
			t.Fatal(err)
		}
		if got["seq"] != float64(i+1) || got["prev"] != prev || got["id"] != string(rune('a'+i)) || got["script"] != nil {
			t.Errorf("%s", lines[i])
		}
	}
	for name, want := range map[string]os.FileMode{l.File: 0o600, headName(l.File): 0o600, filepath.Dir(l.File): 0o700 | os.ModeDir} {
		if about, err := os.Stat(name); err != nil || about.Mode() != want {
			t.Errorf("%s: %v, %v", name, about.Mode(), err)
		}
	}
	s := wantRecords(t, l, 2)
	if s.First != 1 || s.Head != digest(bytes.TrimSuffix(lines[1], []byte("\n"))) {
		t.Errorf("%+v", s)
	}
	if n, err := l.Check(); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestScriptIsKept(t *testing.T) {
	l := newLog(t)
	l.Script = true
	add(t, l, "a")
	if !strings.Contains(string(read(t, l.File)), `"script":"echo a"`) {
		t.Errorf("%s", read(t, l.File))
	}
}

// A request cannot avoid the audit by its length.
func TestLongRecord(t *testing.T) {
	l := newLog(t)
	l.Script = true
	long := strings.Repeat("\x01", 1<<13)
	r := entry("a")
	r.Script, r.Description, r.Dir = strings.Repeat("\x01", sandbox.MaxArgument), long, long
	r.Decision.Reason, r.Decision.Image, r.Decision.Env, r.Decision.Mounts = long, long, slices.Repeat([]string{long}, 200), slices.Repeat([]string{long}, 200)
	if err := l.Record(r); err != nil {
		t.Fatal(err)
	}
	if text := read(t, l.File); len(text) > maxLine || !bytes.Contains(text, fmt.Appendf(nil, `"script":%d`, sandbox.MaxArgument)) || len(r.Decision.Env[0]) != len(long) {
		t.Errorf("%d bytes", len(text))
	}
	r = entry("b")
	r.Script = strings.Repeat("\x01", sandbox.MaxArgument)
	if err := l.Record(r); err != nil {
		t.Fatal(err)
	}
	if text := read(t, l.File); bytes.Count(text, []byte(`\u0001`)) < sandbox.MaxArgument {
		t.Error("the longest script was left out")
	}
	wantRecords(t, l, 2)
}

// eachField visits the fields of a record that may be long, those of tomorrow, too.
func eachField(t *testing.T, v reflect.Value, above string, visit func(name string, v reflect.Value)) {
	for field, is := range v.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		name = above + name
		switch kind := is.Kind(); {
		case !field.IsExported():
		case kind == reflect.String, kind == reflect.Slice && is.Type().Elem().Kind() == reflect.String:
			visit(name, is)
		case kind == reflect.Struct:
			eachField(t, is, name+".", visit)
		case kind == reflect.Pointer && is.Type().Elem().Kind() == reflect.Struct:
			if is.IsNil() {
				is.Set(reflect.New(is.Type().Elem()))
			}
			eachField(t, is.Elem(), name+".", visit)
		case !is.CanInt() && !is.CanUint() && !is.CanFloat() && kind != reflect.Bool:
			t.Errorf("%s is a %s, which a record that is too long is not cut to", name, is.Type())
		}
	}
}

// However long a field is, its record is a line that verifies, and says what was cut. A
// command that can write anything else into the log could stop all others.
func TestEachFieldTooLong(t *testing.T) {
	fill := map[string]func(reflect.Value) int{
		"control characters": func(v reflect.Value) int {
			if v.Kind() == reflect.String {
				v.SetString(strings.Repeat("\x01", 1<<18))
				return 1 << 18
			}
			long := slices.Repeat([]string{strings.Repeat("\x01", 250)}, 1000)
			v.Set(reflect.ValueOf(long).Convert(v.Type()))
			return len(long)
		},
		"many or not UTF-8": func(v reflect.Value) int {
			if v.Kind() == reflect.String {
				v.SetString(strings.Repeat("\x80", 1<<18))
				return 1 << 18
			}
			v.Set(reflect.ValueOf(make([]string, 400_000)).Convert(v.Type()))
			return 400_000
		},
		"one": func(v reflect.Value) int {
			if v.Kind() == reflect.String {
				v.SetString("é" + strings.Repeat("\U000e0001", 1<<17)) // 12 bytes of JSON each
				return 1<<19 + 2
			}
			v.Set(reflect.ValueOf([]string{strings.Repeat("\x7f", 1<<18)}).Convert(v.Type()))
			return 1
		},
	}
	check := func(name string, r sandbox.AuditRecord, want map[string]int) {
		t.Helper()
		l := newLog(t)
		l.Script = true
		add(t, l, "before")
		if err := l.Record(r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		add(t, l, "after")
		wantRecords(t, l, 3)
		var got struct{ Cut map[string]int }
		if line := bytes.Split(read(t, l.File), []byte("\n"))[1]; json.Unmarshal(line, &got) != nil || len(line) > maxLine || !maps.Equal(got.Cut, want) {
			t.Errorf("%s: a line of %d bytes, with %v cut, want %v", name, len(line), got.Cut, want)
		}
	}
	kinds := slices.Sorted(maps.Keys(fill))
	for turn, kind := range kinds {
		long, all, cuts, fields := fill[kind], sandbox.AuditRecord{}, map[string]int{}, 0
		eachField(t, reflect.ValueOf(&all).Elem(), "", func(name string, v reflect.Value) {
			fields++
			n := long(v)
			cuts[name] = n
			if fields%len(kinds) != turn { // each alone once: with the race detector, a check takes seconds
				return
			}
			one := sandbox.AuditRecord{}
			eachField(t, reflect.ValueOf(&one).Elem(), "", func(other string, v reflect.Value) {
				if other == name {
					long(v)
				}
			})
			check(kind+" in "+name, one, map[string]int{name: n})
		})
		if fields < 36 {
			t.Fatalf("only %d fields", fields)
		}
		check(kind+" in all", all, cuts)
		if len(all.End.Files) != cuts["end.files"] || len(all.Decision.Rule) != cuts["decision.rule"] {
			t.Error("the caller's record was cut")
		}
	}
}

// A line that is too long is refused, and leaves the log as it was.
func TestTooLongALine(t *testing.T) {
	l := newLog(t)
	add(t, l, "a")
	if err := l.alone(func(h *head) error { return l.append(h, make([]byte, maxLine+1)) }); err == nil || !strings.Contains(err.Error(), "1048577 bytes") {
		t.Errorf("%v", err)
	}
	add(t, l, "b")
	wantRecords(t, l, 2)
}

func TestRotation(t *testing.T) {
	l := newLog(t)
	l.MaxSize, l.Keep = 1000, 3
	files := func() (names []string) {
		entries, err := os.ReadDir(filepath.Dir(l.File))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for i := range 40 {
		add(t, l, fmt.Sprint(i))
		if s := wantFound(t, l); s.Last != uint64(i+1) || s.First > 1 && s.Records < 4 {
			t.Errorf("%+v", s)
		}
	}
	want := []string{"audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3", "audit.jsonl.head"}
	if got := files(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	l.Keep = 1
	for i := range 5 {
		add(t, l, fmt.Sprint(i))
	}
	wantFound(t, l)
	if got, want := files(), []string{"audit.jsonl", "audit.jsonl.1", "audit.jsonl.head"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	write(t, filepath.Join(filepath.Dir(l.File), "audit.jsonl.bak"), []byte("somebody's"))
	wantFound(t, l)
}

// An interrupted rotation is continued.
func TestRotationIsCutShort(t *testing.T) {
	for name, stop := range map[string]func(l *Log) error{
		"before the new file": func(l *Log) error { return os.Rename(l.File, rotated(l.File, 1)) },
		"before its first record": func(l *Log) error {
			return errors.Join(os.Rename(l.File, rotated(l.File, 1)), os.WriteFile(l.File, nil, 0o600))
		},
		"before its head": func(l *Log) error {
			before, err := os.ReadFile(headName(l.File))
			if err != nil {
				return err
			}
			l.MaxSize = 1
			return errors.Join(l.Record(entry("x")), os.WriteFile(headName(l.File), before, 0o600))
		},
		"in its first record": func(l *Log) error {
			return errors.Join(os.Rename(l.File, rotated(l.File, 1)), os.WriteFile(l.File, []byte(`{"seq":4,`), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			add(t, l, "a", "b", "c")
			if err := stop(l); err != nil {
				t.Fatal(err)
			}
			if s, _ := verify(t, l); s.Bad > 0 {
				t.Errorf("%+v", s)
			}
			l.MaxSize = 0
			add(t, l, "d", "e")
			if s, found := verify(t, l); s.Bad > 0 || s.First != 1 || s.Last < 5 {
				t.Errorf("%+v, %q", s, found)
			}
		})
	}
}

// A gap among the rotated files is filled before any file is removed.
func TestRotationFillsHoles(t *testing.T) {
	l := newLog(t)
	l.MaxSize, l.Keep = 1, 3
	add(t, l, "a", "b", "c") // in FILE.2, FILE.1 and FILE
	if err := os.Rename(rotated(l.File, 2), rotated(l.File, 3)); err != nil {
		t.Fatal(err)
	}
	add(t, l, "d")
	wantRecords(t, l, 4)
	add(t, l, "e")
	if s := wantRecords(t, l, 4); s.First != 2 {
		t.Errorf("%+v", s)
	}
}

// Changed files are never overwritten.
func TestRecordRefuses(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, l *Log){
		"missing file":  func(_ *testing.T, l *Log) { os.Remove(l.File) },
		"missing head":  func(_ *testing.T, l *Log) { os.Remove(headName(l.File)) },
		"empty head":    func(t *testing.T, l *Log) { write(t, headName(l.File), nil) },
		"head of NULs":  func(t *testing.T, l *Log) { write(t, headName(l.File), make([]byte, headSize)) },
		"an empty line": func(t *testing.T, l *Log) { write(t, l.File, append(read(t, l.File), '\n')) },
		"half a line in the middle": func(t *testing.T, l *Log) {
			write(t, l.File, append(read(t, l.File), `{"seq":3,"prev":"`+none+`"`+"\n"...))
		},
		"too long a line": func(t *testing.T, l *Log) { write(t, l.File, append(read(t, l.File), make([]byte, 2<<20)...)) },
		"invalid head":    func(t *testing.T, l *Log) { write(t, headName(l.File), []byte("{}")) },
		"truncated file":  func(t *testing.T, l *Log) { write(t, l.File, read(t, l.File)[:100]) },
		"empty file":      func(t *testing.T, l *Log) { write(t, l.File, nil) },
		"added line":      func(t *testing.T, l *Log) { write(t, l.File, append(read(t, l.File), "x\n"...)) },
		"repeated last line": func(t *testing.T, l *Log) {
			text := read(t, l.File)
			write(t, l.File, append(text, text[len(text)/2:]...))
		},
		"changed last line": func(t *testing.T, l *Log) {
			write(t, l.File, bytes.Replace(read(t, l.File), []byte(`"b"`), []byte(`"c"`), 1))
		},
		"renamed file":          func(_ *testing.T, l *Log) { os.Rename(l.File, l.File+"-20260101") },
		"only one file is left": func(_ *testing.T, l *Log) { os.Rename(l.File, rotated(l.File, 1)); os.Remove(headName(l.File)) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			add(t, l, "a", "b")
			change(t, l)
			was, _ := os.ReadFile(l.File)
			for range 2 {
				err := l.Record(entry("c"))
				if err == nil || !strings.Contains(err.Error(), "belljar audit verify") {
					t.Errorf("%v", err)
				}
			}
			if is, _ := os.ReadFile(l.File); !bytes.Equal(was, is) {
				t.Errorf("%s became %s", was, is)
			}
			if s, found := verify(t, l); s.Bad == 0 {
				t.Errorf("%+v, %q", s, found)
			}
			// The next step in the error.
			aside := t.TempDir()
			all, _ := filepath.Glob(l.File + "*")
			for _, name := range all {
				if err := os.Rename(name, filepath.Join(aside, filepath.Base(name))); err != nil {
					t.Fatal(err)
				}
			}
			add(t, l, "d")
			wantRecords(t, l, 1)
		})
	}
}

// killed leaves a log as a process does that is killed after two records, when it has
// written part of the third, and not the head.
func killed(t *testing.T, tear func(line []byte) []byte) *Log {
	t.Helper()
	l := newLog(t)
	add(t, l, "a", "b")
	text, head := read(t, l.File), read(t, headName(l.File))
	add(t, l, "c")
	line := read(t, l.File)[len(text):]
	write(t, l.File, append(text, tear(line)...))
	write(t, headName(l.File), head)
	return l
}

func TestKilledBeforeTheHead(t *testing.T) {
	for name, tear := range map[string]func(line []byte) []byte{
		"after the line":     func(line []byte) []byte { return line },
		"before its newline": func(line []byte) []byte { return line[:len(line)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			l := killed(t, tear)
			if s, found := verify(t, l); s.Bad > 0 || s.Warnings != 1 {
				t.Errorf("%+v, %q", s, found)
			}
			add(t, l, "d")
			wantRecords(t, l, 4)
		})
	}
}

func TestKilledInALine(t *testing.T) {
	for name, tear := range map[string]func(line []byte) []byte{
		"torn":                     func(line []byte) []byte { return line[:50] },
		"one byte":                 func(line []byte) []byte { return line[:1] },
		"NULs":                     func([]byte) []byte { return make([]byte, 100) },
		"half, with a newline":     func(line []byte) []byte { return append(line[:50:50], '\n') },
		"two halves":               func(line []byte) []byte { return append(append(line[:50:50], '\n'), append(line[:90:90], '\n')...) },
		"one byte, with a newline": func(line []byte) []byte { return append(line[:1:1], '\n') },
		"NULs, with a newline":     func([]byte) []byte { return append(make([]byte, 100), '\n') },
		"repaired half":            func(line []byte) []byte { return append(append(line[:50:50], '\n'), `{"seq":3,"prev":`...) },
	} {
		t.Run(name, func(t *testing.T) {
			l := killed(t, tear)
			wantFound(t, l, "warning: audit.jsonl:3: an incomplete record; the next record will confirm this")
			if _, err := l.Check(); err != nil {
				t.Fatal(err)
			}
			size := len(bytes.TrimSuffix(tear(bytes.Repeat([]byte("x"), 300)), []byte("\n")))
			want := fmt.Sprintf("warning: audit.jsonl:3: %d bytes of an incomplete record; record 3 confirms this", size)
			wantRecords(t, l, 3, want)
			add(t, l, "d", "e")
			wantRecords(t, l, 5, want)
			// Those bytes are in the chain, too.
			write(t, l.File, bytes.Replace(read(t, l.File), tear(read(t, l.File))[:1], []byte("\t"), 1))
			if s, _ := verify(t, l); s.Bad == 0 {
				t.Error("an edit was not seen")
			}
		})
	}
}

func TestGoroutines(t *testing.T) {
	l := newLog(t)
	l.MaxSize, l.Keep = 4000, 1000
	add(t, l, "first")
	other := &Log{File: l.File, MaxSize: l.MaxSize, Keep: l.Keep}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 25 {
				if err := []*Log{l, other}[i%2].Record(entry(fmt.Sprintf("%d-%d", i, j))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for running := true; running; { // it is verified while others append
		select {
		case <-done:
			running = false
		default:
			wantFound(t, l)
		}
	}
	wantRecords(t, l, 201)
}
