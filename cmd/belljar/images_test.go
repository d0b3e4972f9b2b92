package main

import (
	"strings"
	"testing"
	"time"

	"belljar/images"
)

func TestWriteImages(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var out strings.Builder
	err := writeImages(&out, []images.Listed{
		{Name: "belljar/base:latest", ID: "sha256:0123456789abcdef", Size: 1_980_000, Created: time.Unix(0, 0)},
		{Name: "a\x1b[2J:1", ID: "sha256:fedcba9876543210", Digest: "sha256:aaaabbbbccccdddd", Size: 5, Created: now.Add(-time.Hour)},
	}, now)
	want := `REPOSITORY:TAG        ID             DIGEST         SIZE     CREATED
belljar/base:latest   0123456789ab   -              1.98MB   -
a\x1b[2J:1            fedcba987654   aaaabbbbcccc   5B       About an hour ago
`
	if err != nil || out.String() != want {
		t.Errorf("%v, got\n%s", err, out.String())
	}
}
