package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar/sandbox"
	"belljar/sandbox/listing"
)

// fakeLister has containers; it can look into those that have runs.
type fakeLister struct {
	list []listing.Container
	runs map[string][]sandbox.Process
}

func (f fakeLister) List(context.Context) ([]listing.Container, error) { return f.list, nil }

func (f fakeLister) FillProcesses(_ context.Context, m *listing.Container) error {
	runs, is := f.runs[m.ID]
	if !is {
		return errors.New("no such container")
	}
	m.Runs = runs
	return nil
}

func TestListManaged(t *testing.T) {
	f := fakeLister{
		list: []listing.Container{{ID: "busy"}, {ID: "idle"}, {ID: "gone"}, {ID: "foreign", Foreign: true}},
		runs: map[string][]sandbox.Process{"busy": {{Command: "sleep 1"}}, "idle": nil, "foreign": {{Command: "evil"}}},
	}
	got, err := listManaged(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	want := []listing.Container{
		{ID: "busy", Runs: []sandbox.Process{{Command: "sleep 1"}}},
		{ID: "idle", Runs: []sandbox.Process{}},
		{ID: "gone"}, // not known, which is not none
		{ID: "foreign", Foreign: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWriteManaged(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	list := []listing.Container{
		{
			ID: "0123456789abcdef", Command: "01A", Image: "belljar/base", User: "1000:50", UserName: "dev:staff", State: "running",
			Created: now.Add(-5 * time.Second), Deadline: now.Add(10 * time.Minute), Owner: "12@345",
			Runs: []sandbox.Process{{Command: "sh -c a\nb\tc \x1b[31m"}, {Command: "sleep 1"}},
		},
		{
			ID: "fedcba9876543210", Command: "evil\tx\n\u202e", State: "created",
			Created: now.Add(-2 * time.Hour), Deadline: now.Add(-time.Minute), Owner: "13@1", Orphaned: true,
			Runs: []sandbox.Process{},
		},
		{ID: "1", Created: now, Runs: []sandbox.Process{{Command: strings.Repeat("ä", 70)}}},
		{ID: "2", Created: now},
		{ID: "3", Created: now, Foreign: true, Image: "evil", State: "running"},
		{ID: "4", Foreign: true},
	}
	want := `
CONTAINER      FOR               IMAGE          USER                  STATE     AGE                  ENDS                 OWNER     RUNS
0123456789ab   01A               belljar/base   1000:50 (dev:staff)   running   5 seconds            in 10 minutes        12        sh -c a\nb\tc \x1b[31m, sleep 1
fedcba987654   evil\tx\n\u202e   -              -                     created   2 hours              about a minute ago   gone      -
1              -                 -              -                     -         less than a second   -                    -         ` + strings.Repeat("ä", 59) + `…
2              -                 -              -                     -         less than a second   -                    -         ?
3              -                 evil           -                     running   less than a second   -                    foreign   ?
4              -                 -              -                     -         -                    -                    foreign   ?
`
	var b strings.Builder
	if err := writeManaged(&b, list, now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, "\n"+b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestWriteCommands(t *testing.T) {
	list := []runningCommand{
		{sandbox.LogInfo{ID: "01A", Command: "make\tall\n\x1b[31m", Description: "say \u202e", Session: "dev"}, 75},
		{sandbox.LogInfo{ID: "01B", Command: strings.Repeat("ä", 70), Description: strings.Repeat("d", 50)}, 0},
	}
	want := `
COMMAND ID   ELAPSED   SESSION   DESCRIPTION                                COMMAND
01A          1m15s     dev       say \u202e                                 make\tall\n\x1b[31m
01B          0s        -         ` + strings.Repeat("d", 39) + "…   " + strings.Repeat("ä", 59) + "…\n"
	var b strings.Builder
	if err := writeCommands(&b, list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, "\n"+b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestWriteManagedEmpty(t *testing.T) {
	var b strings.Builder
	if err := writeManaged(&b, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "CONTAINER ") {
		t.Errorf("an empty list is %q, want the header only", got)
	}
}

func TestTextOrJSON(t *testing.T) {
	for format, want := range map[string]sandbox.Cause{"ndjson": sandbox.CauseInvalid, "": sandbox.CauseInvalid} {
		if err := textOrJSON(format); sandbox.CauseOf(err) != want {
			t.Errorf("textOrJSON(%q) = %v, want %s", format, err, want)
		}
	}
	for _, format := range []string{"text", "json"} {
		if err := textOrJSON(format); err != nil {
			t.Errorf("textOrJSON(%q) = %v", format, err)
		}
	}
}
