package executions

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// journaled is a log with a journal, which has no record.
func journaled(t *testing.T) (*log, *os.File) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	l := newLog()
	l.open(file)
	return l, file
}

// What a running execution keeps in memory is bounded, also if its events have a byte each,
// or large screens.
func TestLogIsBounded(t *testing.T) {
	drop := func(n int) <-chan sandbox.Event {
		events := make(chan sandbox.Event, n)
		for range n {
			events <- sandbox.Event{Type: sandbox.EventStdout, Data: []byte("x"), Size: 1}
		}
		return events
	}
	screen := sandbox.Event{Type: sandbox.EventScreen, Screen: &sandbox.Shot{Lines: [][]sandbox.Span{make([]sandbox.Span, 500)}}}
	for name, next := range map[string]func() sandbox.Event{
		"bytes":  func() sandbox.Event { return <-drop(1) },
		"merged": func() sandbox.Event { from := drop(3); e, _ := merged(<-from, from, 0); return e },
		"screen": func() sandbox.Event { return screen },
	} {
		l, _ := journaled(t)
		for range 10_000 {
			e := next()
			e.Time = time.Unix(1, 0)
			l.add(e)
		}
		size := 0
		for _, e := range l.events {
			size += 200 + cap(e.Data)
			if e.Screen != nil {
				size += 50 * len(e.Screen.Lines[0])
			}
		}
		if size > inMemory {
			t.Errorf("%s: %d events with %d bytes", name, len(l.events), size)
		}
	}
}

// Events that could not be recorded, as on a full disk, do not keep anyone from the result.
func TestJournalFails(t *testing.T) {
	dir := t.TempDir()
	full := make(chan struct{})
	l := runner(t, dir, func(p *sandboxtest.Proc) int {
		p.Stdout.Write([]byte("kept"))
		<-full
		p.Stdout.Write([]byte("lost"))
		return 3
	})
	b := openBook(t, dir, l)
	x := start(t, b, sandbox.Command{Script: "play"}, Request{Owner: "a"})
	f := x.Follow(0, false)
	defer f.Close()
	for e := (sandbox.Event{}); e.Type != sandbox.EventStdout; {
		var err error
		if e, err = f.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	x.log.file.Close()
	close(full)
	<-x.Done()
	late := record(t, b, x.ID)
	for _, after := range []uint64{0, f.next - 1, f.next, f.next + 5} {
		events := follow(t, late, after, false)
		last := events[len(events)-1]
		if last.Type != sandbox.EventResult || last.Result.ExitCode != 3 || events[len(events)-2].Type != sandbox.EventNotice {
			t.Errorf("after %d: %+v", after, events)
		}
	}
}

// A record's line is what encoding/json reads, whatever its texts are.
func TestRecordLine(t *testing.T) {
	for _, r := range []Record{
		{},
		{ID: "01J", Owner: "ann", Started: time.Now(), Profile: "default"},
		{ID: "a", Owner: `q"u\o`, Key: "\"\\~</script>", Request: "ff", Started: time.Unix(1, 5).UTC(), Profile: "ü\u2028\n\x01", Session: "dev"},
	} {
		line, err := r.appendLine(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got Record
		if err := json.Unmarshal(line, &got); err != nil || !got.Started.Equal(r.Started) || strings.Count(string(line), "\n") != 1 {
			t.Errorf("%s: %v", line, err)
		}
		if got.Started = r.Started; got != r {
			t.Errorf("%+v is read as %+v", r, got)
		}
	}
	if _, err := (Record{Profile: "\xff"}).appendLine(nil); err == nil {
		t.Error("what is not UTF-8 is recorded as something else")
	}
}

// Once a bug: a request whose patience ended just as its execution began made a journal that no one could read.
func TestWaitsAfterItBegan(t *testing.T) {
	l, file := journaled(t)
	l.begins()
	l.waits()
	if text, err := os.ReadFile(file.Name()); err != nil || string(text) != beginsLine {
		t.Errorf("%q, %v", text, err)
	}
}
