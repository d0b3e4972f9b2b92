package main

import (
	"strings"
	"testing"

	"belljar/sandbox"
)

// The syntax of mounts is docker's: what does not begin with / or . is the name of a volume.
func TestMountArgs(t *testing.T) {
	t.Chdir("/tmp")
	for _, test := range []struct {
		volume, mount string
		want          sandbox.Mount
		err           string
	}{
		{volume: "/a:/b", want: sandbox.Mount{Source: "/a", Target: "/b", Writable: true}},
		{volume: "./a:/b:ro", want: sandbox.Mount{Source: "/tmp/a", Target: "/b"}},
		{volume: "cache:/b", want: sandbox.Mount{Source: "cache", Target: "/b", Writable: true}},
		{volume: "models.v1:/b:ro", want: sandbox.Mount{Source: "models.v1", Target: "/b"}},
		{mount: "source=cache,target=/b", want: sandbox.Mount{Source: "cache", Target: "/b", Writable: true}},
		{mount: "type=volume,src=cache,dst=/b,readonly", want: sandbox.Mount{Source: "cache", Target: "/b"}},
		{mount: "type=bind,source=./a,target=/b,ro=false", want: sandbox.Mount{Source: "/tmp/a", Target: "/b", Writable: true}},
		{volume: "a/b:/c", err: `mount source "a/b" is neither a path nor the name of a volume: write ./a/b for a directory`},
		{volume: "Cache:/c", err: `mount source "Cache" is neither a path nor the name of a volume: write ./Cache for a directory`},
		{volume: ":/c", err: "a mount needs a source and a target"},
		{mount: "source=cache,type=bind,target=/b", err: `mount source "cache" is not a path: write ./cache for a directory, or type=volume`},
		{mount: "type=volume,source=/a,target=/b", err: `mount source "/a" is not the name of a volume: write type=bind for a directory`},
		{mount: "type=volume,source=./a,target=/b", err: `mount source "./a" is not the name of a volume`},
		{mount: "type=volume,target=/b", err: "a mount needs a source and a target"},
		{mount: "type=tmpfs,source=a,target=/b", err: `type "tmpfs" is not supported, only bind and volume`},
	} {
		var volumes, specs []string
		if test.volume != "" {
			volumes = []string{test.volume}
		} else {
			specs = []string{test.mount}
		}
		got, err := mounts(volumes, specs)
		switch {
		case test.err != "":
			if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s%s: %v", test.volume, test.mount, err)
			}
		case err != nil || len(got) != 1 || got[0] != test.want:
			t.Errorf("%s%s: %+v, error %v", test.volume, test.mount, got, err)
		}
	}
}
