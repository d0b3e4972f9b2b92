package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want *Group
	}{
		"v2":              {"0::/system.slice/docker-abc.scope\n", &Group{V2: "/sys/fs/cgroup/system.slice/docker-abc.scope", Memory: "/sys/fs/cgroup/system.slice/docker-abc.scope", Pids: "/sys/fs/cgroup/system.slice/docker-abc.scope", CPU: "/sys/fs/cgroup/system.slice/docker-abc.scope"}},
		"v1":              {"4:freezer:/docker/abc\n3:cpuacct:/docker/abc\n2:memory:/docker/abc\n1:pids:/docker/abc\n", &Group{Memory: "/sys/fs/cgroup/memory/docker/abc", Pids: "/sys/fs/cgroup/pids/docker/abc", CPU: "/sys/fs/cgroup/cpuacct/docker/abc", Freezer: "/sys/fs/cgroup/freezer/docker/abc"}},
		"v1 in company":   {"4:cpu,cpuacct:/docker/abc\n2:memory:/docker/abc\n1:pids:/docker/abc", &Group{Memory: "/sys/fs/cgroup/memory/docker/abc", Pids: "/sys/fs/cgroup/pids/docker/abc", CPU: "/sys/fs/cgroup/cpuacct/docker/abc"}},
		"hybrid":          {"2:memory:/docker/abc\n1:pids:/docker/abc\n0::/docker/abc\n", &Group{Memory: "/sys/fs/cgroup/memory/docker/abc", Pids: "/sys/fs/cgroup/pids/docker/abc"}},
		"another's":       {"0::/system.slice/docker-other.scope\n", nil},
		"a colon in it":   {"0::/a:b/abc\n", &Group{V2: "/sys/fs/cgroup/a:b/abc", Memory: "/sys/fs/cgroup/a:b/abc", Pids: "/sys/fs/cgroup/a:b/abc", CPU: "/sys/fs/cgroup/a:b/abc"}},
		"private (no ID)": {"0::/\n", nil},
		"nonsense":        {"abc\n\n:\n", nil},
	} {
		got := Parse(test.text, "abc")
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// What is read from disks and written to them.
func TestDiskBytes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"io.stat":                         "8:0 rbytes=100 wbytes=20 rios=7 wios=7 dbytes=9 dios=9\n252:1 rbytes=3 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n",
		"blkio.throttle.io_service_bytes": "8:0 Read 100\n8:0 Write 20\n8:0 Sync 120\n8:0 Async 0\n8:0 Total 120\n252:1 Read 3\n252:1 Total 3\nTotal 123\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		group Group
		want  int64
	}{
		"v2":       {Group{V2: dir}, 123},
		"v1":       {Group{Blkio: dir}, 123},
		"no blkio": {Group{}, 0},
	} {
		if got := test.group.DiskBytes(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// Only the kernel says who was killed because memory ran out.
func TestKilledByMemory(t *testing.T) {
	for record, want := range map[string]string{
		"3,760,66683994,-;Memory cgroup out of memory: Killed process 253 (tail) total-vm:64480kB, anon-rss:62200kB": "253",
		"3,761,66683995,-;Memory cgroup out of memory: Killed process 7 (a 8 (b)) total-vm:64480kB":                  "7",
		"11,762,66683996,-;Memory cgroup out of memory: Killed process 254 (tail) total-vm:64480kB":                  "",
		"3,763,66683997,-;tail: Memory cgroup out of memory: Killed process 255 (tail)":                              "",
		"3,764,66683998,-;cgroup: fork rejected by pids controller":                                                  "",
		"": "",
	} {
		if got, ok := killedByMemory(record); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", record, got, ok)
		}
	}
}
