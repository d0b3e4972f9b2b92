package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// otherBoot makes the head look written before the machine started.
func otherBoot(t *testing.T, l *Log) {
	t.Helper()
	if bootID() == "" {
		t.Skip("NOT TESTED: the machine has no boot id")
	}
	write(t, headName(l.File), bytes.Replace(read(t, headName(l.File)), []byte(bootID()), []byte("before"), 1))
}

func TestPowerCut(t *testing.T) {
	t.Run("part of the file", func(t *testing.T) {
		for _, rest := range []string{"", "{"} {
			l := newLog(t)
			add(t, l, "a", "b", "c", "d")
			lines := bytes.SplitAfter(read(t, l.File), []byte("\n"))
			write(t, l.File, append(slices.Concat(lines[:2]...), rest...))
			otherBoot(t, l)
			add(t, l, "e")
			at := "audit.jsonl:3"
			var want []string
			if rest != "" {
				at = "audit.jsonl:4"
				want = []string{"warning: audit.jsonl:3: 1 bytes of an incomplete record; record 5 confirms this"}
			}
			s := wantFound(t, l, append(want, at+": seq 5: the 2 records before it are missing: the machine stopped before they reached its disk, or someone removed them")...)
			if s.Last != 6 || s.Records != 4 {
				t.Errorf("%+v", s)
			}
		}
	})
	for name, cut := range map[string]func(text []byte, line int) []byte{ // found in review: each was refused for ever
		"NULs at the end": func(text []byte, line int) []byte { return append(text[:line:line], make([]byte, len(text)-line)...) },
		"part of a line": func(text []byte, line int) []byte {
			return append(text[:line+20:line+20], make([]byte, len(text)-line-20)...)
		},
		"more NULs than missing": func(text []byte, line int) []byte { return append(text[:line:line], make([]byte, 2<<20)...) },
		"only NULs":              func(text []byte, _ int) []byte { return make([]byte, len(text)) },
	} {
		t.Run("part of the file, "+name, func(t *testing.T) {
			l := newLog(t)
			add(t, l, "a", "b", "c")
			text := read(t, l.File)
			write(t, l.File, cut(text, bytes.IndexByte(text, '\n')+1))
			otherBoot(t, l)
			if s, _ := verify(t, l); s.Bad == 0 {
				t.Error("it was not seen")
			}
			add(t, l, "d")
			if s, found := verify(t, l); s.Bad != 1 || s.Last != 5 || !strings.Contains(found[len(found)-1], "records before it are missing") {
				t.Errorf("%+v, %q", s, found)
			}
			if bytes.Contains(read(t, l.File), []byte{0}) {
				t.Error("the NULs stayed")
			}
		})
	}
	t.Run("a missing newline", func(t *testing.T) {
		l := newLog(t)
		add(t, l, "a", "b")
		text := read(t, l.File)
		write(t, l.File, append(text[:len(text)-1:len(text)-1], 0))
		otherBoot(t, l)
		add(t, l, "c")
		wantRecords(t, l, 3)
	})
	for _, keepOld := range []bool{false, true} {
		t.Run(fmt.Sprint("of the file's name, rotated ", keepOld), func(t *testing.T) {
			l := newLog(t)
			add(t, l, "a", "b")
			lost := "2 records"
			if keepOld {
				l.MaxSize, lost = 1, "1 records"
				add(t, l, "c") // the only record in the new file
				l.MaxSize = 0
			}
			if err := os.Remove(l.File); err != nil {
				t.Fatal(err)
			}
			if err := l.Record(entry("x")); err == nil || !strings.Contains(err.Error(), "the file is gone") {
				t.Errorf("without a power cut: %v", err)
			}
			otherBoot(t, l)
			add(t, l, "d")
			s, found := verify(t, l)
			if len(found) != 1 || !strings.Contains(found[0], "the "+lost+" before it are missing") {
				t.Errorf("%+v, %q", s, found)
			}
		})
	}
	t.Run("during a rotation", func(t *testing.T) {
		l := newLog(t)
		add(t, l, "a", "b")
		old := read(t, l.File)
		l.MaxSize = 1
		add(t, l, "c")
		write(t, l.File, old)
		if err := os.Remove(rotated(l.File, 1)); err != nil {
			t.Fatal(err)
		}
		otherBoot(t, l)
		add(t, l, "d")
		if s, found := verify(t, l); s.Bad != 1 || s.Records != 4 {
			t.Errorf("%+v, %q", s, found)
		}
	})
	t.Run("before the first write", func(t *testing.T) {
		l := newLog(t)
		if err := os.MkdirAll(filepath.Dir(l.File), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, headName(l.File), make([]byte, headSize))
		add(t, l, "a")
		wantRecords(t, l, 1)
	})
	t.Run("all files", func(t *testing.T) {
		l := newLog(t)
		add(t, l, "a", "b")
		write(t, l.File, nil)
		otherBoot(t, l)
		add(t, l, "c")
		wantFound(t, l, "audit.jsonl:1: seq 3: the 2 records before it are missing: the machine stopped before they reached its disk, or someone removed them")
	})
	t.Run("the head", func(t *testing.T) {
		l := newLog(t)
		add(t, l, "a")
		head := read(t, headName(l.File))
		add(t, l, "b", "c")
		write(t, headName(l.File), head)
		otherBoot(t, l)
		wantFound(t, l, "warning: audit.jsonl:3: seq 3: the head does not include it: its belljar was killed")
		add(t, l, "d")
		wantRecords(t, l, 4)
	})
	t.Run("does not hide an edit", func(t *testing.T) {
		l := newLog(t)
		add(t, l, "a", "b", "c")
		write(t, l.File, bytes.Replace(read(t, l.File), []byte(`"b"`), []byte(`""`), 1))
		otherBoot(t, l)
		if err := l.Record(entry("d")); err == nil || !strings.Contains(err.Error(), "belljar audit verify") {
			t.Error(err)
		}
	})
	t.Run("does not hide a missing line", func(t *testing.T) {
		for _, more := range []string{"x\n", "x\ny"} {
			l := newLog(t)
			add(t, l, "a")
			write(t, l.File, append(read(t, l.File), more...))
			otherBoot(t, l)
			if err := l.Record(entry("b")); err == nil || !strings.Contains(err.Error(), "belljar audit verify") {
				t.Error(err)
			}
			if s, found := verify(t, l); s.Bad != 1 {
				t.Errorf("%+v, %q", s, found)
			}
		}
	})
}
