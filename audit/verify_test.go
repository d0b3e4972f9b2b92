package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFindings(t *testing.T) {
	for name, test := range map[string]struct {
		change func(lines [][]byte) [][]byte
		want   []string
	}{
		"an edit": {func(l [][]byte) [][]byte { l[1] = bytes.Replace(l[1], []byte(`"b"`), []byte(`"x"`), 1); return l },
			[]string{"audit.jsonl:2: seq 2: it was changed: its SHA-256 does not match record 3"}},
		"a removed space": {func(l [][]byte) [][]byte { l[1] = bytes.Replace(l[1], []byte(`,"t`), []byte(`, "t`), 1); return l },
			[]string{"audit.jsonl:2: seq 2: it was changed: its SHA-256 does not match record 3"}},
		"a changed first record": {func(l [][]byte) [][]byte { l[0] = bytes.Replace(l[0], []byte("00"), []byte("11"), 1); return l },
			[]string{"audit.jsonl:1: seq 1: it was changed: it refers to a record before it, but it is the first", "audit.jsonl:1: seq 1: it was changed: its SHA-256 does not match record 2"}},
		"a changed last record": {func(l [][]byte) [][]byte { l[3] = bytes.Replace(l[3], []byte(`"d"`), []byte(`"x"`), 1); return l },
			[]string{"audit.jsonl:4: seq 4: it was changed: its SHA-256 does not match the head"}},
		"an invalid record": {func(l [][]byte) [][]byte { l[1] = l[1][5:]; return l },
			[]string{"audit.jsonl:2: it is not a valid record", "audit.jsonl:3: seq 3: record 2 is missing before it"}},
		"a drop":                 {func(l [][]byte) [][]byte { return slices.Delete(l, 1, 3) }, []string{"audit.jsonl:2: seq 4: records 2 to 3 are missing before it"}},
		"a dropped first record": {func(l [][]byte) [][]byte { return l[1:] }, []string{"audit.jsonl:1: seq 2: record 1 is missing before it"}},
		"a dropped last record":  {func(l [][]byte) [][]byte { return l[:3] }, []string{"audit.jsonl:3: record 4 is missing after it"}},
		"all records dropped":    {func([][]byte) [][]byte { return nil }, []string{"audit.jsonl: records 1 to 4 are missing after it"}},
		"a reorder": {func(l [][]byte) [][]byte { l[1], l[2] = l[2], l[1]; return l },
			[]string{"audit.jsonl:2: seq 3: record 2 is missing before it", "audit.jsonl:3: seq 2: it is out of order: it follows record 3", "audit.jsonl:4: seq 4: record 3 is missing before it"}},
		"a duplicate":   {func(l [][]byte) [][]byte { return slices.Insert(l, 1, l[0]) }, []string{"audit.jsonl:2: seq 1: it appears twice"}},
		"an insertion":  {func(l [][]byte) [][]byte { return slices.Insert(l, 1, []byte("{}\n")) }, []string{"audit.jsonl:2: it is not a valid record"}},
		"an empty line": {func(l [][]byte) [][]byte { return append(l, []byte("\n")) }, []string{"audit.jsonl:5: it is not a valid record"}},
		"a long line": {func(l [][]byte) [][]byte { return slices.Insert(l, 2, bytes.Repeat([]byte("x"), 3<<20), []byte("\n")) },
			[]string{"audit.jsonl:3: it is not a valid record"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			add(t, l, "a", "b", "c", "d")
			write(t, l.File, slices.Concat(test.change(bytes.SplitAfter(read(t, l.File), []byte("\n"))[:4])...))
			wantFound(t, l, test.want...)
		})
	}
}

func TestNotedHead(t *testing.T) {
	l := newLog(t)
	add(t, l, "a")
	noted, _ := verify(t, l)
	add(t, l, "b")
	last, _ := verify(t, l)
	check := func(head string) (bad int64) {
		s, err := Verify(l.File, head, func(f Finding) { t.Log(f) })
		if err != nil {
			t.Fatal(err)
		}
		return s.Bad
	}
	if check(noted.Head) != 0 || check("sha256:"+strings.ToUpper(last.Head)) != 0 || check(strings.Repeat("a", 64)) != 1 {
		t.Error("a noted head")
	}
	// Without the head, a noted one shows that the end is there.
	os.Remove(headName(l.File))
	if check(last.Head) != 0 || check(noted.Head) != 1 || check("") != 1 {
		t.Error("a head that is missing")
	}
	// Everything is rewritten, by a user who may write all files.
	os.Remove(l.File)
	add(t, l, "x", "y")
	if check("") != 0 || check(noted.Head) != 1 {
		t.Error("another chain")
	}
}

func TestCannotVerify(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "no", "none"), dir} {
		if _, err := Verify(name, "", func(f Finding) { t.Error(f) }); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v", err)
		}
	}
}

// Files that are rotated while they are read are found, and those that rotation
// removes are no loss.
func TestVerifyWhileRotating(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(l *Log)
		records   int64
		want      string
	}{
		"rotated further":            {func(l *Log) { l.Keep = 100; add(t, l, "xx", "yy", "zz") }, 6, ""},
		"rotated away":               {func(l *Log) { add(t, l, "xx", "yy") }, 4, ""},
		"all of them":                {func(l *Log) { add(t, l, slices.Repeat([]string{"xx"}, 20)...) }, 1, ""},
		"removed by another process": {func(l *Log) { os.Remove(rotated(l.File, 3)) }, 5, "audit.jsonl.2: seq 4: record 3 is missing before it"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			l.MaxSize, l.Keep = 1, 5
			add(t, l, "a", "b", "c", "d", "e", "f")
			var found []string
			v := newVerifier(l.File, "", func(f Finding) { found = append(found, strings.Replace(f.String(), ":1", "", 1)) })
			defer v.close()
			if err := v.open(); err != nil {
				t.Fatal(err)
			}
			test.meanwhile(l)
			s, err := v.verify()
			if err != nil || s.Records != test.records || strings.Join(found, "\n") != test.want || s.Last != 6 {
				t.Errorf("%+v, %v, %q", s, err, found)
			}
		})
	}
}

// Any single change to a log of several files is found.
func TestAnyChangeIsFound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		l := &Log{File: filepath.Join(dir, "audit.jsonl"), MaxSize: rapid.Int64Range(300, 3000).Draw(rt, "max size"), Keep: rapid.IntRange(1, 5).Draw(rt, "keep")}
		for i := range rapid.IntRange(2, 30).Draw(rt, "records") {
			add(t, l, fmt.Sprint(i))
		}
		if s, found := verify(t, l); len(found) > 0 || s.Records < 1 {
			rt.Fatalf("%+v, %q", s, found)
		}
		what := change(t, rt, l)
		if s, found := verify(t, l); s.Bad == 0 {
			rt.Fatalf("%s: %+v, %q", what, s, found)
		}
	})
}

// change makes one change, and describes it.
func change(t *testing.T, rt *rapid.T, l *Log) string {
	old, err := rotations(l.File)
	if err != nil {
		rt.Fatal(err)
	}
	names := []string{l.File}
	for _, n := range old {
		names = append(names, rotated(l.File, n))
	}
	name := rapid.SampledFrom(names).Draw(rt, "file")
	text := read(t, name)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1]
	at := rapid.IntRange(0, len(lines)-1).Draw(rt, "line")
	what := rapid.SampledFrom([]string{"edit", "drop", "swap", "duplicate", "truncate", "insert", "remove", "exchange"}).Draw(rt, "change")
	switch what {
	case "edit":
		i := rapid.IntRange(0, len(text)-1).Draw(rt, "byte")
		text[i] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		write(t, name, text)
	case "drop":
		write(t, name, slices.Concat(slices.Delete(lines, at, at+1)...))
	case "swap":
		other := rapid.IntRange(0, len(lines)-1).Draw(rt, "with line")
		if at == other {
			rt.Skip("the same line")
		}
		lines[at], lines[other] = lines[other], lines[at]
		write(t, name, slices.Concat(lines...))
	case "duplicate":
		write(t, name, slices.Concat(slices.Insert(lines, rapid.IntRange(0, len(lines)).Draw(rt, "to line"), lines[at])...))
	case "truncate":
		write(t, name, text[:rapid.IntRange(0, len(text)-1).Draw(rt, "to byte")])
	case "insert":
		write(t, name, slices.Concat(slices.Insert(lines, at, []byte(rapid.StringN(0, 20, -1).Draw(rt, "text")+"\n"))...))
	case "remove":
		if err := os.Remove(name); err != nil {
			rt.Fatal(err)
		}
		if len(names) == 1 {
			write(t, name, nil)
		}
	case "exchange":
		other := rapid.SampledFrom(names).Draw(rt, "with file")
		if name == other {
			rt.Skip("the same file")
		}
		os.Rename(name, name+"x")
		os.Rename(other, name)
		os.Rename(name+"x", other)
	}
	return what
}

// FuzzVerify expects no panic, and that Record makes nothing worse: it adds no
// finding, and an end that it accepts is valid afterwards, too.
func FuzzVerify(f *testing.F) {
	l := newLog(f)
	l.MaxSize = 1000
	add(f, l, "a", "b", "c", "d", "e")
	f.Add(read(f, l.File), read(f, headName(l.File)), read(f, rotated(l.File, 1)))
	for _, text := range [][]byte{nil, read(f, l.File)[:30], append(read(f, l.File)[:30], make([]byte, 100)...)} { // after a power cut
		f.Add(text, bytes.Replace(read(f, headName(l.File)), []byte(bootID()), []byte("before"), 1), read(f, rotated(l.File, 1)))
	}
	f.Add([]byte("{}"), []byte("{}"), []byte("\n"))
	f.Add([]byte(`{"seq":1,"prev":"`+none+`"}`+"\n"), []byte(`{"seq":1,"sha256":"`+none+`","length":1,"line":1}`), []byte{})
	f.Add([]byte(`{"seq":18446744073709551615,"lost":18446744073709551614,"type":"lost","prev":"`+none+`"}`+"\n"), []byte(`{"seq":2,"sha256":"`+none+`","length":9223372036854775807,"line":1}`), []byte{})
	f.Fuzz(func(t *testing.T, text, head, old []byte) {
		l := newLog(t)
		if err := os.MkdirAll(filepath.Dir(l.File), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, l.File, text)
		write(t, headName(l.File), head)
		if len(old) > 0 {
			write(t, rotated(l.File, 1), old)
		}
		before, _ := verify(t, l)
		if err := l.Record(entry("x")); err != nil {
			return
		}
		if after, found := verify(t, l); after.Bad > before.Bad {
			t.Errorf("%+v became %+v, %q", before, after, found)
		}
	})
}
