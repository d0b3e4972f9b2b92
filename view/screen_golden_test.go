package view

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar/sandbox"
)

var update = flag.Bool("update", false, "write the golden screens")

// testdata/screen/NAME.raw is what a real program wrote to a terminal of 80 by 24
// (record.py has how), NAME.json what the screen showed at the end of it.
func TestScreenGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/screen/*.raw")
	if err != nil || len(files) < 10 {
		t.Fatalf("got %d recordings: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".raw"), func(t *testing.T) {
			input, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newTestScreen(80, 24)
			_, _ = s.Write(input)
			shot := s.Shot(true)
			if err := check(shot); err != nil {
				t.Error(err)
			}
			golden(t, strings.TrimSuffix(file, ".raw")+".json", shot)
		})
	}
}

func golden(t *testing.T, file string, got sandbox.Shot) {
	t.Helper()
	if *update {
		data, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: go test ./view -run TestScreenGolden -update writes it", err)
	}
	var want sandbox.Shot
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
