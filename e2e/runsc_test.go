//go:build gvisor

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"belljar/internal/enginetest"
)

// gvisor is a private engine that has gVisor's runtime, built from
// its module. Its other platforms hang on some hosts.
func gvisor(t *testing.T) *enginetest.Engine {
	t.Helper()
	needDocker(t)
	runsc, err := buildRunsc()
	if err != nil {
		t.Fatal(err)
	}
	return privateEngineWith(t, fmt.Sprintf(`{"runtimes": {"runsc": {"path": %q, "runtimeArgs": ["--platform=systrap", "--network=none"]}}}`, runsc))
}

var buildRunsc = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("RUNSC"); path != "" {
		return path, nil
	}
	runsc := filepath.Join(filepath.Dir(binary), "runsc")
	build := withoutCgo("build", "-modfile=runsc.mod", "-o", runsc, "gvisor.dev/gvisor/runsc")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building runsc: %w\n%s", err, out)
	}
	return runsc, nil
})

// TestKernelOfItsOwn: under gVisor, running out of memory or processes ends the
// container's kernel, and everything in it. The result reports
// that, and the runtime's messages are not part of the command's stderr.
func TestKernelOfItsOwn(t *testing.T) {
	t.Parallel()
	d := gvisor(t)
	for name, test := range map[string]struct {
		flags  []string
		script string
		causes []string
		code   int
		by     string   // evidence.killed_by
		then   []string // docker's arguments, once the command has begun
	}{
		"the runtime's own status":    {nil, "exit 128", []string{"exited"}, 128, "", nil},
		"it kills itself":             {nil, "kill -9 $$", []string{"signaled"}, 137, "", nil},
		"out of memory":               {[]string{"--memory", "64MiB"}, "tail /dev/zero", []string{"oom_killed"}, 137, "oom", nil},
		"a child is out of memory":    {[]string{"--memory", "64MiB"}, "(tail /dev/zero); exit 3", []string{"oom_killed"}, 137, "oom", nil},
		"too many processes":          {nil, "i=0; while [ $i -lt 300 ]; do sleep 100 & i=$((i+1)); done 2>/dev/null; wait", []string{"pids_limit", "engine_lost"}, 137, "", nil},
		"a fork bomb":                 {[]string{"--pids-limit", "60"}, "b() { b | b & }; b 2>/dev/null; sleep 100", []string{"pids_limit", "engine_lost"}, 137, "", nil},
		"its container is killed":     {nil, "sleep 1000", []string{"signaled", "engine_lost"}, 137, "outside", []string{"kill"}},
		"its container is taken away": {nil, "sleep 1000", []string{"signaled", "engine_lost"}, 137, "outside", []string{"rm", "-f"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, config := shared(t, "rw")
			p := begun(t, d.Use, append(append([]string{"--config", config, "-v", dir + ":/work", "--runtime", "runsc"}, test.flags...), "echo out; echo err >&2; touch ready; "+test.script)...)
			if test.then != nil {
				mark(t, "command started", dir+"/ready")
				ids, _ := d.Docker("ps", "-q")
				d.Docker(append(test.then, strings.Fields(ids)...)...)
			}
			a := p.wait(t)
			lost := a.Cause == "engine_lost" && a.code == 125
			if !slices.Contains(test.causes, a.Cause) || !lost && (a.code != test.code || a.Evidence.KilledBy != test.by) {
				t.Errorf("%s", a.json)
			}
			if a.Stdout != "out\n" || a.Stderr != "err\n" {
				t.Errorf("stdout %q, stderr %q", a.Stdout, a.Stderr)
			}
		})
	}
	// Root is that of gVisor's kernel.
	config := configured(t, "profiles: {r: {user: root}}")
	root := askAs(t, d.Use, "--config", config, "--profile", "r", "--runtime", "runsc", "id -u; grep CapEff /proc/self/status; sleep 1000 &")
	root.ended(t, 0, "")
	if root.says(t, "0\nCapEff:\t00000000800005fb\n"); !strings.Contains(string(root.json), `"root":"gvisor"`) || len(root.Lingering) != 1 || root.Lingering[0].UID != 0 {
		t.Errorf("%s", root.json)
	}
	// Signals are sent from inside, as the command's user.
	for script, test := range map[string]struct{ grace, stdout, by string }{
		cleans:                          {"30s", "working\ncleaned\n", "SIGTERM"},
		`echo working; exec sleep 1000`: {"30s", "working\n", "SIGTERM"},
		`echo working; kill -STOP $$`:   {"2s", "working\n", "SIGKILL"},
		`trap 'sleep 1000 & exit' TERM; echo working; while :; do sleep 0.1; done`: {"2s", "working\n", "SIGKILL"},
		`trap '' TERM; echo working; while :; do sleep 1; done`:                    {"2s", "working\n", "SIGKILL"},
	} {
		t.Run("stop grace: "+script, func(t *testing.T) {
			a := begun(t, d.Use, "--runtime", "runsc", "--timeout", "3s", "--stop-grace", test.grace, script).wait(t)
			if a.Cause != "wall_timeout" || a.Stdout != test.stdout || a.Evidence.StoppedBy != test.by {
				t.Errorf("%s", a.json)
			}
		})
	}
}
