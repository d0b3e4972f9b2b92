package target

import (
	"strings"
	"testing"

	"belljar/sandbox"
)

func TestVolume(t *testing.T) {
	for source, want := range map[string]bool{
		"cache": true, "a": true, "0": true, "my-cache": true, "models.v1": true, strings.Repeat("a", 253): true,
		"": false, ".": false, "..": false, "a..b": false, ".a": false, "a.": false, "-a": false, "a-": false, "a.-b": false, "A": false, "a_b": false,
		"a/b": false, "a/..": false, "/a": false, "./a": false, "~": false, "a b": false, "a\x00": false, "a\n": false, "ä": false, "a:b": false, "cache-*": false,
		strings.Repeat("a", 254): false,
	} {
		if got := Volume(source); got != want {
			t.Errorf("%q: %v", source, got)
		}
	}
}

func TestCheckNoVolumes(t *testing.T) {
	if err := CheckNoVolumes("x", []sandbox.Mount{{Source: "/cache"}}); err != nil {
		t.Error(err)
	}
	err := CheckNoVolumes("x", []sandbox.Mount{{Source: "/cache"}, {Source: "cache"}})
	if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.HasPrefix(err.Error(), `volume "cache": engine x has no volumes (mount a directory`) {
		t.Error(err)
	}
}
