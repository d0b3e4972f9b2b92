package audit

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkRecord compared with an append of the same line without chain, lock and
// head.
func BenchmarkRecord(b *testing.B) {
	r := entry("01M7ZDPADGCCGJ7DYFP70GJS4C")
	b.Run("chained", func(b *testing.B) {
		l := newLog(b)
		for b.Loop() {
			if err := l.Record(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		name := filepath.Join(b.TempDir(), "plain")
		for b.Loop() {
			text, err := encode(r)
			if err != nil {
				b.Fatal(err)
			}
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				b.Fatal(err)
			}
			if _, err = f.Write(append(place{1, none}.line(text), '\n')); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	l := newLog(b)
	for range 5000 {
		if err := l.Record(entry("01M7ZDPADGCCGJ7DYFP70GJS4C")); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(read(b, l.File))))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Verify(l.File, "", func(Finding) {}); err != nil {
			b.Fatal(err)
		}
	}
}
