package eval

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"belljar/eval/suite"
	"belljar/sandbox"
)

// What is excluded does not count. What is taken has bounds, also of the names: they are in the trial's result. Those of
// several steps are in one archive.
func TestUnpackedBounds(t *testing.T) {
	declared := []suite.Artifact{{Path: "/app", Exclude: []string{"node_modules"}}}
	for what, c := range map[string]struct {
		name  string
		n     int
		size  int64
		steps int
		want  string
	}{
		"many excluded": {"app/node_modules/%d", maxArtifacts + 1, 0, 0, ""},
		"big excluded":  {"app/node_modules/%d", 3, maxBytes, 0, ""},
		"many":          {"app/%d", maxArtifacts + 1, 0, 0, "over 10000 files"},
		"many of steps": {"app/%d", maxArtifacts + 1, 0, 2, ""},
		"big":           {"app/%d", 2, maxBytes/2 + 1, 0, "over 64 MiB"},
		"big of steps":  {"app/%d", 2, maxBytes/2 + 1, 2, ""},
		"names":         {"app/%d" + strings.Repeat("/"+strings.Repeat("x", 100), 9), 2000, 0, 0, "the names of the artifacts are over 1 MiB"},
		"long names":    {"app/%d" + strings.Repeat("x", 1000), 5, 0, 0, ""},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		zeros := make([]byte, c.size)
		for i := range c.n {
			w.WriteHeader(&tar.Header{Name: fmt.Sprintf(c.name, i), Mode: 0o644, Size: c.size, Typeflag: tar.TypeReg})
			w.Write(zeros)
		}
		w.Close()
		_, refused, err := unpacked(&b, declared, c.steps)
		if err == nil != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || len(fmt.Sprint(refused)) > maxRefused*400 {
			t.Errorf("%s: %v, want %q; %d refused", what, err, c.want, len(refused))
		}
	}
}

// What was taken out of a container in each step is in the archive of all steps, whatever its names are.
func TestArchiveOfSteps(t *testing.T) {
	name := strings.Repeat("/"+strings.Repeat("x", 99), suite.MaxName/100)
	var made artifacts
	for _, step := range []string{strings.Repeat("a", suite.MaxID), strings.Repeat("b", suite.MaxID)} {
		for i := range suite.MaxNames / suite.MaxName {
			made = append(made, sandbox.File{Path: inStep(step, fmt.Sprintf("%s%04d", name[:suite.MaxName-4], i)), Mode: 0o644})
		}
	}
	again, refused, err := unpacked(packed(made), []suite.Artifact{{Path: "/" + suite.StepsDir}}, 2)
	if err != nil || len(refused) > 0 || len(again) != len(made) {
		t.Errorf("%d of %d, %d refused, %v", len(again), len(made), len(refused), err)
	}
}
