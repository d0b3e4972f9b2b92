package spool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"belljar/internal/ownfile"
	"belljar/sandbox"
	"belljar/sandbox/internal/control"

	"pgregory.net/rapid"
)

// model keeps everything: each stream, and whose each byte of both is.
type model struct {
	bytes  [2][]byte
	merged []byte
	whose  []Stream
}

func (m *model) write(s Stream, p []byte) {
	m.bytes[s] = append(m.bytes[s], p...)
	m.merged = append(m.merged, p...)
	for range p {
		m.whose = append(m.whose, s)
	}
}

func (m *model) of(which sandbox.Stream) []byte {
	switch which {
	case sandbox.Stdout:
		return m.bytes[Stdout]
	case sandbox.Stderr:
		return m.bytes[Stderr]
	}
	return m.merged
}

// openSpool is a spool in a directory of its own.
func openSpool(t testing.TB, limit int64, action sandbox.OutputAction) *Spool {
	s := New(limit, action)
	if err := s.Open(filepath.Join(t.TempDir(), "spools", "ID"), sandbox.LogInfo{ID: "ID"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// spooling writes at random to a spool and to the model.
func spooling(outer *testing.T, t *rapid.T, chunk *rapid.Generator[[]byte]) (*Spool, *model, int64, sandbox.OutputAction) {
	limit := rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, 100_000)).Draw(t, "limit")
	action := rapid.SampledFrom([]sandbox.OutputAction{sandbox.OutputTruncate, sandbox.OutputEnd}).Draw(t, "action")
	s, all := openSpool(outer, limit, action), &model{}
	for range rapid.IntRange(0, 40).Draw(t, "writes") {
		which := Stream(rapid.IntRange(0, 1).Draw(t, "stream"))
		p := chunk.Draw(t, "chunk")
		if len(p) == 0 {
			continue
		}
		if err := s.Write(which, p); err != nil {
			t.Fatal(err)
		}
		all.write(which, p)
	}
	return s, all, limit, action
}

// chunks are small, and at times larger than a small budget's segments.
func chunks(content *rapid.Generator[byte]) *rapid.Generator[[]byte] {
	return rapid.OneOf(rapid.SliceOfN(content, 1, 100), rapid.Map(rapid.SliceOfN(content, 1, 8), func(p []byte) []byte {
		return bytes.Repeat(p, 3000)
	}))
}

func TestSpoolKeepsBeginningAndEnd(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, all, limit, action := spooling(t, r, chunks(rapid.Byte()))
		s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
		total := int64(len(all.merged))
		outputs, err := s.Outputs(math.MaxInt64)
		if err != nil {
			r.Fatal(err)
		}
		var kept, trimmed int64
		for i, o := range outputs {
			kept += int64(len(o.Head) + len(o.Tail))
			if o.Dropped > 0 {
				trimmed += 2 * utf8.UTFMax // at most, of runes at the gap
			}
			checkOutput(r, o, all.bytes[i])
			if sum := sha256.Sum256(all.bytes[i]); o.SHA256 != hex.EncodeToString(sum[:]) {
				r.Errorf("SHA-256 %s of %q", o.SHA256, all.bytes[i])
			}
			if o.Lines != int64(bytes.Count(all.bytes[i], []byte("\n"))) {
				r.Errorf("%d lines", o.Lines)
			}
			if o.Dropped > 0 && total <= limit {
				r.Errorf("dropped %d of %d within the limit of %d", o.Dropped, o.Total, limit)
			}
			if action == sandbox.OutputEnd && len(o.Tail) > 0 {
				r.Errorf("a tail of %d", len(o.Tail))
			}
		}
		if want := min(total, limit); kept > want || kept < want-trimmed {
			r.Errorf("kept %d of %d, limit %d", kept, total, limit)
		}
		// Frames are small here: each has a head, and each stream may have a
		// segment more than it needs.
		if disk := diskOf(r, s.Dir); disk > 3*min(total, limit+limit/8)+40<<10 {
			r.Errorf("%d bytes on disk for a limit of %d", disk, limit)
		}
	})
}

func diskOf(t *rapid.T, dir string) (size int64) {
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		about, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += about.Size()
	}
	return size
}

// Text that is cut stays text.
func TestSpoolCutsBetweenRunes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.Map(rapid.StringN(0, 30, -1), func(s string) []byte { return []byte(strings.ReplaceAll(s, "\x00", "")) })
		s, all, _, _ := spooling(t, r, text)
		s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
		outputs, err := s.Outputs(math.MaxInt64)
		if err != nil {
			r.Fatal(err)
		}
		for i, o := range outputs {
			checkOutput(r, o, all.bytes[i])
			if !o.IsText() {
				r.Errorf("%q and %q of %q", o.Head, o.Tail, all.bytes[i])
			}
		}
	})
}

func checkOutput(t *rapid.T, o sandbox.Output, want []byte) {
	t.Helper()
	if o.Total != int64(len(want)) || o.Dropped != o.Total-int64(len(o.Head)+len(o.Tail)) {
		t.Errorf("total %d and dropped %d with %d and %d bytes kept of %d", o.Total, o.Dropped, len(o.Head), len(o.Tail), len(want))
	}
	if !bytes.HasPrefix(want, o.Head) || !bytes.HasSuffix(want, o.Tail) {
		t.Errorf("kept %q and %q of %q", o.Head, o.Tail, want)
	}
}

// What a flood on one stream leaves of the other's last words.
func TestFloodLeavesTheOthersLastWords(t *testing.T) {
	s := openSpool(t, 1<<20, sandbox.OutputTruncate)
	line := bytes.Repeat([]byte("flood\n"), 5000)
	for i := range 300 {
		if i == 60 {
			s.Write(Stderr, []byte("the error\n"))
		}
		s.Write(Stdout, line)
	}
	s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
	outputs, err := s.Outputs(math.MaxInt64)
	if err != nil || string(outputs[Stderr].Bytes()) != "the error\n" {
		t.Errorf("%q, %v", outputs[Stderr].Bytes(), err)
	}
	if kept := len(outputs[Stdout].Bytes()); kept < 1<<20-20 {
		t.Errorf("only %d bytes kept beside it", kept)
	}
}

// A reader from any offset, during the writing and after it, in this process or
// as another's, gets what a reader of the full stream gets, and learns of what
// it does not get.
func TestReadFromAnyOffset(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, 100_000)).Draw(r, "limit")
		s, all := openSpool(t, limit, sandbox.OutputTruncate), &model{}
		others := Store{Dir: filepath.Dir(s.Dir)}
		type reading struct {
			r      *Reader
			which  sandbox.Stream
			offset int64
			got    []sandbox.Chunk
			err    error
		}
		var readings []*reading
		var going sync.WaitGroup
		open := func() {
			source := rapid.SampledFrom([]Source{s.LiveSource(), others.FileSource("ID")}).Draw(r, "source")
			which := rapid.SampledFrom([]sandbox.Stream{sandbox.Stdout, sandbox.Stderr, sandbox.Merged}).Draw(r, "which")
			x := &reading{which: which, offset: rapid.Int64Range(0, int64(len(all.of(which))+100)).Draw(r, "offset")}
			var err error
			if x.r, err = NewReader(source, which, x.offset); err != nil {
				r.Fatal(err)
			}
			readings = append(readings, x)
			going.Go(func() {
				for {
					c, err := x.r.Next(t.Context())
					if err != nil {
						x.err = errors.Join(err, x.r.Close())
						return
					}
					c.Data = bytes.Clone(c.Data)
					x.got = append(x.got, c)
				}
			})
		}
		for range rapid.IntRange(0, 60).Draw(r, "writes") {
			if len(readings) < 6 && rapid.IntRange(0, 9).Draw(r, "reader") == 0 {
				open()
			}
			which, p := Stream(rapid.IntRange(0, 1).Draw(r, "stream")), chunks(rapid.Byte()).Draw(r, "chunk")
			if err := s.Write(which, p); err != nil {
				r.Fatal(err)
			}
			all.write(which, p)
		}
		s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
		open()
		going.Wait()
		for _, x := range readings {
			if !errors.Is(x.err, io.EOF) {
				r.Fatalf("%s from %d: %v", x.which, x.offset, x.err)
			}
			checkChunks(r, all, x.which, x.offset, x.got)
		}
	})
}

func checkChunks(t *rapid.T, all *model, which sandbox.Stream, at int64, got []sandbox.Chunk) {
	full := all.of(which)
	for _, c := range got {
		at += c.Missed
		if c.Offset != at {
			t.Fatalf("%s: offset %d, want %d", which, c.Offset, at)
		}
		if end := at + int64(len(c.Data)); end > int64(len(full)) || !bytes.Equal(c.Data, full[at:end]) {
			t.Fatalf("%s from %d: %q is not what was written", which, at, c.Data)
		}
		for i := range c.Data {
			if which == sandbox.Merged && all.whose[at+int64(i)].Name() != c.Stream {
				t.Fatalf("byte %d is not of %s", at+int64(i), c.Stream)
			}
		}
		at += int64(len(c.Data))
	}
	if at < int64(len(full)) {
		t.Fatalf("%s ends at %d of %d", which, at, len(full))
	}
}

// A reader waits for what comes, and no longer than its context.
func TestReaderWaits(t *testing.T) {
	s := openSpool(t, 1000, sandbox.OutputTruncate)
	r, err := NewReader(s.LiveSource(), sandbox.Merged, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go s.Write(Stderr, []byte("late"))
	if c, err := r.Next(t.Context()); err != nil || string(c.Data) != "late" || c.Stream != sandbox.Stderr {
		t.Errorf("%+v, %v", c, err)
	}
	go s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
	if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A directory that is removed under a command costs what comes later, and the
// result says how much.
func TestSpoolGone(t *testing.T) {
	s := openSpool(t, 64<<10, sandbox.OutputTruncate)
	chunk := bytes.Repeat([]byte("x"), 1000)
	for range 100 {
		if err := s.Write(Stdout, chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	failures := 0
	for range 100 {
		if s.Write(Stdout, chunk) != nil {
			failures++
		}
	}
	s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
	outputs, err := s.Outputs(math.MaxInt64)
	if failures != 1 || err == nil || !strings.Contains(err.Error(), "bytes of stdout could not be stored") {
		t.Errorf("%d failures, %v", failures, err)
	}
	if o := outputs[Stdout]; o.Total != 200_000 || len(o.Head) != 32<<10 || o.Dropped != o.Total-int64(len(o.Head)+len(o.Tail)) {
		t.Errorf("total %d, kept %d and %d, dropped %d", o.Total, len(o.Head), len(o.Tail), o.Dropped)
	}
}

// Of what a belljar wrote that was killed everything can be read.
func TestReadWhatAKilledOneWrote(t *testing.T) {
	s := openSpool(t, 1000, sandbox.OutputTruncate)
	s.Write(Stdout, []byte("partial"))
	s.note.close() // as the kernel does
	others := Store{Dir: filepath.Dir(s.Dir), Spooling: sandbox.Spooling{Age: time.Hour, Total: 1 << 30}}
	r, err := NewReader(others.FileSource("ID"), sandbox.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if c, err := r.Next(t.Context()); err != nil || string(c.Data) != "partial" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if found := others.Find("ID"); found.Running || found.Ended.IsZero() {
		t.Errorf("%+v", found)
	}
}

func TestSweep(t *testing.T) {
	store := Store{Dir: filepath.Join(t.TempDir(), "spools"), Spooling: sandbox.Spooling{Age: time.Hour, Total: 40 << 10}}
	if err := store.sweep(t.Context()); err != nil {
		t.Errorf("no directory: %v", err)
	}
	begin := func(id string, age time.Duration, size int) *Spool {
		s := New(1<<20, sandbox.OutputTruncate)
		if err := s.Open(store.Path(id), sandbox.LogInfo{ID: id, Started: time.Now().Add(-age)}); err != nil {
			t.Fatal(err)
		}
		s.Write(Stdout, make([]byte, size))
		return s
	}
	ended := func(id string, age time.Duration, size int) {
		s := begin(id, age, size)
		s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour-age)
		s.Close()
	}
	running := begin("running", 3*time.Hour, 30<<10)
	defer running.Close()
	ended("expired", 2*time.Hour, 10)
	ended("older", 3*time.Minute, 10)
	ended("old", 2*time.Minute, 10)
	ended("new", time.Minute, 10)
	if err := store.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	list, err := store.All()
	var got []string
	for _, s := range list {
		got = append(got, s.ID)
	}
	if want := "running new"; strings.Join(got, " ") != want || err != nil {
		t.Errorf("%q is left, want %q; %v", got, want, err)
	}
}

// Once a bug: what began first went first, also where it had just ended, with its result.
func TestSweepBeginsWithWhatEndedFirst(t *testing.T) {
	store := Store{Dir: filepath.Join(t.TempDir(), "spools"), Spooling: sandbox.Spooling{Age: time.Hour, Total: 2 * minSize}}
	var all []*Spool
	for i, id := range []string{"long", "short", "shorter"} {
		s := New(1<<20, sandbox.OutputTruncate)
		if err := s.Open(store.Path(id), sandbox.LogInfo{ID: id, Started: time.Now().Add(time.Duration(i) * time.Second)}); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	for _, s := range slices.Backward(all) {
		s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
		s.Close()
	}
	if err := store.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if !store.Has("long") || !store.Has("short") || store.Has("shorter") {
		t.Errorf("left: long %t, short %t, shorter %t", store.Has("long"), store.Has("short"), store.Has("shorter"))
	}
}

// An ID is used again once its command ended, and never while it runs.
func TestSpoolOfTheSameID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ID")
	s := New(100, sandbox.OutputTruncate)
	if err := s.Open(dir, sandbox.LogInfo{ID: "ID"}); err != nil {
		t.Fatal(err)
	}
	second := New(100, sandbox.OutputTruncate)
	if err := second.Open(dir, sandbox.LogInfo{ID: "ID"}); err == nil || !second.Temporary {
		t.Error("it is used twice")
	}
	second.Remove()
	s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
	s.Close()
	third := New(100, sandbox.OutputTruncate)
	if err := third.Open(dir, sandbox.LogInfo{ID: "ID"}); err != nil {
		t.Error(err)
	}
	third.Close()
}

// What is not a spool, or not named as one, is nobody's to remove or to read.
func TestStrangersInTheSpool(t *testing.T) {
	store := Store{Dir: filepath.Join(t.TempDir(), "spools")}
	s := New(1000, sandbox.OutputTruncate)
	if err := s.Open(store.Path("ID"), sandbox.LogInfo{ID: "ID"}); err != nil {
		t.Fatal(err)
	}
	s.Write(Stdout, []byte("mine"))
	s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, -time.Hour)
	s.Close()
	for name, text := range map[string]string{"docs/letter": "x", ".hidden/stdout.0": "x", "not an id/stdout.0": "x", "file": "x"} {
		os.MkdirAll(filepath.Dir(filepath.Join(store.Dir, name)), 0o700)
		if err := os.WriteFile(filepath.Join(store.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(store.Dir + "/*")
	if err != nil || len(left) != 4 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// A file that is named nearly as a segment is none, and one that is listed and
// cannot be opened ends the reading.
func TestDamagedSpool(t *testing.T) {
	s := openSpool(t, 1000, sandbox.OutputTruncate)
	s.Write(Stdout, []byte("mine"))
	os.WriteFile(s.Dir+"/stdout.5", []byte("x"), 0o600)
	os.Symlink("/nonexistent", s.Dir+"/stdout.0000000000000004")
	os.WriteFile(s.Dir+"/stderr.0000000000000000", bytes.Repeat([]byte{0xff}, 100), 0o600)
	s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
	others := Store{Dir: filepath.Dir(s.Dir)}
	for which, want := range map[sandbox.Stream]error{sandbox.Stdout: io.EOF, sandbox.Stderr: errDamaged} {
		r, err := NewReader(others.FileSource("ID"), which, 0)
		for err == nil {
			_, err = r.Next(t.Context())
		}
		r.Close()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", which, err, want)
		}
	}
}

// What was added counts among all processes, and is swept when it is much.
func TestAddedSpools(t *testing.T) {
	store := Store{Dir: t.TempDir(), Spooling: sandbox.Spooling{Total: 8 << 20}}
	for range 30 {
		if err := store.Added(t.Context(), 30<<10); err != nil {
			t.Fatal(err)
		}
	}
	about, err := os.Stat(store.Dir + "/" + sweptName)
	if err != nil || about.Size() != 30%16 {
		t.Errorf("%d, %v", about.Size(), err)
	}
}

// A reader that begins near the end does not read all that is before it.
func TestReaderSeeks(t *testing.T) {
	s := openSpool(t, 1<<20, sandbox.OutputTruncate)
	for range 20_000 {
		s.Write(Stdout, []byte("o"))
		s.Write(Stderr, []byte("e"))
	}
	opened := 0
	src := s.LiveSource()
	open := src.open
	src.open = func(which Stream, start int64) (segmentFile, error) {
		opened++
		return open(which, start)
	}
	for offset, want := range map[int64]string{39_990: "oeoeoeoeoe", 39_999: "e"} {
		r, err := NewReader(src, sandbox.Merged, offset)
		got := ""
		for err == nil {
			var c sandbox.Chunk
			if c, err = r.Ready(t.Context()); err == nil && c.Missed == 0 {
				got += string(c.Data)
			}
		}
		r.Close()
		if !errors.Is(err, io.EOF) || got != want {
			t.Errorf("from %d: %q, %v; want %q", offset, got, err, want)
		}
	}
	if opened > 4 {
		t.Errorf("%d segments opened", opened)
	}
}

// The note of the longest and strangest command fits on the page that is read.
func TestNoteFits(t *testing.T) {
	long := strings.Repeat("x", 64)
	s := New(1000, sandbox.OutputTruncate)
	dir := filepath.Join(t.TempDir(), long)
	if err := s.Open(dir, sandbox.LogInfo{ID: long, Command: strings.Repeat("\x01", sandbox.MaxScript), Description: strings.Repeat("\u0085", sandbox.MaxDescription/2), Profile: long, Session: long, Started: time.Now(), Keep: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	s.Write(Stdout, []byte("x"))
	if err := s.End(sandbox.LogEnd{Status: sandbox.StatusCanceled, Cause: sandbox.CauseCanceled, ExitCode: -2}, 720*time.Hour); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if info, _, err := readNote(dir); err != nil || info.LogEnd == nil || info.Stdout.Bytes != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	if about, err := os.Stat(dir + "/" + noteName); err != nil || about.Size() > ownfile.Page {
		t.Errorf("%d bytes, %v", about.Size(), err)
	}
}

// What a belljar that was killed left in its spool goes, and the spool stays what it was.
func TestSweepTidies(t *testing.T) {
	all := Store{Dir: filepath.Join(t.TempDir(), "spools"), Spooling: sandbox.Spooling{Total: 1 << 20, Age: time.Hour}}
	s := New(1000, sandbox.OutputTruncate)
	if err := s.Open(all.Path("dead"), sandbox.LogInfo{ID: "dead", Keep: 3600}); err != nil {
		t.Fatal(err)
	}
	s.Write(Stdout, []byte("so far"))
	left := []string{all.Path("dead") + "/" + control.SocketName}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: left[0]})
	if err != nil {
		t.Fatal(err)
	}
	socket.SetUnlinkOnClose(false)
	socket.Close()
	long := time.Now().Add(-time.Minute).Truncate(time.Second)
	files, _ := filepath.Glob(all.Path("dead") + "/*")
	for _, f := range files {
		os.Chtimes(f, long, long)
	}
	if err := all.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if _, err := os.Lstat(name); err != nil {
			t.Errorf("it goes while its belljar lives: %v", err)
		}
	}
	s.Close()
	if err := all.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if found := all.Find("dead"); found.Running || !found.Ended.Equal(long) || !IsSpool(all.Path("dead")) {
		t.Errorf("%+v, want an end at %v", found, long)
	}
}

// A result has no more than its limit of what is kept: the beginning and the end of each.
func TestOutputsWithinALimit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, all, _, _ := spooling(t, r, chunks(rapid.Byte()))
		s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour)
		most := rapid.Int64Range(0, 20_000).Draw(r, "most")
		whole, err := s.Outputs(math.MaxInt64)
		if err != nil {
			r.Fatal(err)
		}
		outputs, err := s.Outputs(most)
		if err != nil {
			r.Fatal(err)
		}
		kept, size, cut := int64(0), int64(0), int64(0)
		for i, o := range outputs {
			kept += int64(len(whole[i].Bytes()))
			size += int64(len(o.Bytes()))
			if most > 0 {
				checkOutput(r, o, all.bytes[i])
			}
			if o.Dropped > 0 {
				cut += 2 * utf8.UTFMax // at most, of characters at the gap
			}
		}
		if want := min(most, kept); size > want || size < want-cut {
			r.Errorf("%d bytes of %d that are kept, with a limit of %d", size, kept, most)
		}
	})
}

// Each command without a directory of its own sweeps what killed belljars left. None
// of them takes another's spool: not while it is made, nor after the command's end
// while its result is read.
func TestSweepLeavesWhatIsUsed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 100 {
				s := New(1<<20, sandbox.OutputTruncate)
				s.Open("", sandbox.LogInfo{ID: fmt.Sprintf("id-%d-%d", worker, i)})
				s.Write(Stdout, []byte("output"))
				s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, 0)
				if err := (Store{Dir: filepath.Dir(s.Dir)}).sweep(t.Context()); err != nil {
					t.Error(err)
				}
				if out, err := s.Outputs(1 << 20); err != nil || string(out[Stdout].Head) != "output" {
					t.Errorf("output %q, error %v", out[Stdout].Head, err)
				}
				if err := s.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// A belljar may be killed while it writes down how a command ended.
func TestResultInPart(t *testing.T) {
	all := Store{Dir: filepath.Join(t.TempDir(), "spools"), Spooling: sandbox.Spooling{Total: 1 << 20, Age: time.Hour}}
	s := New(1000, sandbox.OutputTruncate)
	if err := s.Open(all.Path("cut"), sandbox.LogInfo{ID: "cut", Keep: 3600}); err != nil {
		t.Fatal(err)
	}
	s.Write(Stdout, []byte("so far"))
	if err := s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess, Cause: sandbox.CauseExited}, time.Hour); err != nil {
		t.Fatal(err)
	}
	outputs, err := s.Outputs(1000)
	if err != nil {
		t.Fatal(err)
	}
	want := Ending{Result: sandbox.Result{ID: "cut", Command: "x\ny", Status: sandbox.StatusSuccess, Cause: sandbox.CauseExited, Message: "whole", Stdout: outputs[Stdout], Stderr: outputs[Stderr]}, Notices: []string{"a\nb"}}
	if err := s.Keep(want); err != nil {
		t.Fatal(err)
	}
	s.Close()
	name := filepath.Join(all.Path("cut"), noteName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := all.Ending("cut"); err != nil || got.Result.Message != "whole" || got.Result.Command != "x\ny" || len(got.Notices) != 1 || string(got.Result.Stdout.Head) != "so far" {
		t.Errorf("%+v, %v", got, err)
	}
	for n := len(bytes.TrimRight(text[:resultAt], "\x00")); n < len(text); n++ {
		if err := os.WriteFile(name, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := all.Ending("cut")
		if r := got.Result; err != nil || r.Status != sandbox.StatusSuccess || r.Message == "whole" || r.Message == "" || string(r.Stdout.Bytes()) != "so far" || got.Notices != nil {
			t.Fatalf("after %d bytes: %+v, %v", n, got, err)
		}
	}
}
