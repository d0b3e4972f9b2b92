package docker

import (
	"encoding/json"
	"testing"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/google/go-cmp/cmp"
)

// The answers of a Docker 20.10, cut down.
const (
	versionAnswer = `{"Version": "20.10.24+dfsg1", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Components": [
		{"Name": "Engine", "Version": "20.10.24+dfsg1", "Details": {"ApiVersion": "1.41", "GitCommit": "5d6db84"}},
		{"Name": "runc", "Version": "1.1.5+ds1", "Details": {"GitCommit": "1.1.5+ds1-1+deb12u1"}},
		{"Name": "other", "Version": "1"}]}`
	infoAnswer = `{"DefaultRuntime": "runc", "Runtimes": {"runsc": {"path": "/usr/bin/runsc"}, "runc": {"path": "runc"}},
		"KernelVersion": "6.18.44", "OperatingSystem": "Debian GNU/Linux 12 (bookworm)", "NCPU": 2, "MemTotal": 1024, "DockerRootDir": "/var/lib/docker",
		"Driver": "overlay2", "CgroupVersion": "1", "CgroupDriver": "cgroupfs",
		"MemoryLimit": true, "SwapLimit": false, "CpuCfsQuota": true, "PidsLimit": true,
		"SecurityOptions": ["name=seccomp,profile=default"], "Warnings": ["WARNING: No swap limit support"]}`
)

func TestAbout(t *testing.T) {
	var version types.Version
	var info system.Info
	for text, into := range map[string]any{versionAnswer: &version, infoAnswer: &info} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	want := About{
		Version: "20.10.24+dfsg1", API: APIVersions{Engine: "1.41"},
		Runtime: "runc", Runtimes: []string{"runc", "runsc"},
		Components: []Component{{"Engine", "20.10.24+dfsg1", "5d6db84"}, {"runc", "1.1.5+ds1", "1.1.5+ds1-1+deb12u1"}, {"other", "1", ""}},
		Machine:    Machine{Kernel: "6.18.44", OS: "Debian GNU/Linux 12 (bookworm)", CPUs: 2, Memory: 1024},
		RootDir:    "/var/lib/docker", Storage: "overlay2", Cgroup: Cgroup{Version: "1", Driver: "cgroupfs"},
		Limits:   LimitSupport{Memory: true, CPU: true, Pids: true},
		Security: []string{"name=seccomp,profile=default"}, Warnings: []string{"WARNING: No swap limit support"},
	}
	got := about(version, info)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c, ok := got.Component("runc"); !ok || c.Version != "1.1.5+ds1" {
		t.Errorf("Component(runc) = %v, %v", c, ok)
	}
	if c, ok := got.Component("crun"); ok {
		t.Errorf("Component(crun) = %v, want none", c)
	}
}
