package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"belljar/config"
	"belljar/sandbox"
	"belljar/sandbox/docker"

	"github.com/google/go-cmp/cmp"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]release{
		"1.1.5+ds1":              {1, 1, 5, final},
		"1.1.5+ds1-1+deb12u1":    {1, 1, 5, final},
		"v1.2.5-0-g59923ef":      {1, 2, 5, final},
		"1.2.5-0ubuntu1~24.04.1": {1, 2, 5, final},
		"1.4.0-rc.3":             {1, 4, 0, 3},
		"1.0.0-rc95":             {1, 0, 0, 95},
		"1.3.0~rc.1+ds":          {1, 3, 0, 1},
		"26.0.0-beta.2":          {26, 0, 0, -1},
		"27.1":                   {27, 1, 0, final},
	} {
		if got, ok := parseVersion(text); !ok || got != want {
			t.Errorf("parseVersion(%q) = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "library-import", "59923ef", "dev"} {
		if got, ok := parseVersion(text); ok {
			t.Errorf("parseVersion(%q) = %v, want none", text, got)
		}
	}
}

func TestUnfixed(t *testing.T) {
	const escapes2025, leaky = "CVE-2025-31133 CVE-2025-52565 CVE-2025-52881", "CVE-2024-21626"
	for _, test := range []struct {
		holes         []hole
		version, want string
	}{
		{runcHoles, "1.0.0-rc95", escapes2025 + " " + leaky},
		{runcHoles, "1.1.5+ds1", escapes2025 + " " + leaky},
		{runcHoles, "1.1.12", escapes2025},
		{runcHoles, "1.2.7", escapes2025},
		{runcHoles, "1.2.8", ""},
		{runcHoles, "1.3.2", escapes2025},
		{runcHoles, "1.3.3", ""},
		{runcHoles, "1.4.0-rc.2", escapes2025},
		{runcHoles, "1.4.0-rc.3", ""},
		{runcHoles, "1.4.0", ""},
		{runcHoles, "2.0.0-rc.1", ""},
		{engineHoles, "20.10.24+dfsg1", "CVE-2024-29018"},
		{engineHoles, "23.0.11", ""},
		{engineHoles, "24.0.9", "CVE-2024-29018"}, // the branch got no fix
		{engineHoles, "25.0.5", ""},
		{engineHoles, "28.2.2", ""},
	} {
		v, _ := parseVersion(test.version)
		if got := strings.Join(unfixed(v, test.holes), " "); got != test.want {
			t.Errorf("unfixed(%s) = %q, want %q", test.version, got, test.want)
		}
	}
}

func TestRender(t *testing.T) {
	plain := painter(&strings.Builder{})
	got := check{"storage", ok("overlay2")}.render(plain) +
		check{"runc", warn("upgrade\nit", "an escape: \x1b[31m")}.render(plain) +
		check{"image", skip("no engine")}.render(plain)
	want := `ok    storage          overlay2
warn  runc             an escape: \x1b[31m
      fix: upgrade\nit
skip  image            not checked: no engine
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCheckJSON(t *testing.T) {
	var b strings.Builder
	if err := writeJSON(&b, check{"runc", warn("upgrade it", "old <1.2>")}); err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"runc","status":"warn","finding":"old <1.2>","fix":"upgrade it"}` + "\n"
	if b.String() != want {
		t.Errorf("JSON is %s, want %s", b.String(), want)
	}
}

func TestTogether(t *testing.T) {
	got := together(ok("fine"), fail("fix", "a"), warn("hm", "b"), fail("fix", "c"))
	if want := fail("fix", "a; c"); got != want {
		t.Errorf("together = %+v, want %+v", got, want)
	}
	if got := together(ok("a"), ok("b")); got != ok("a; b") {
		t.Errorf("together = %+v", got)
	}
}

// goodEngine has nothing wrong with it.
func goodEngine() docker.About {
	return docker.About{
		Version: "28.5.2", Runtime: "runc", Runtimes: []string{"runc", "runsc"},
		Components: []docker.Component{{Name: "Engine", Version: "28.5.2"}, {Name: "runc", Version: "1.3.3", Commit: "v1.3.3-0-gd842d77"}},
		Storage:    "overlay2", Cgroup: docker.Cgroup{Version: "2", Driver: "systemd"},
		Limits:   docker.LimitSupport{Memory: true, Swap: true, CPU: true, Pids: true},
		Security: []string{"name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"},
	}
}

func withRuntimes(runtimes ...string) map[string]sandbox.Profile {
	profiles := map[string]sandbox.Profile{}
	for i, runtime := range runtimes {
		profiles[fmt.Sprintf("p%d", i)] = sandbox.Profile{Runtime: runtime}
	}
	return profiles
}

func TestEngineChecks(t *testing.T) {
	runc := func(version string) func(*docker.About) {
		return func(a *docker.About) { a.Components = []docker.Component{{Name: "runc", Version: version}} }
	}
	engine := func(version string) func(*docker.About) {
		return func(a *docker.About) { a.Components = []docker.Component{{Name: "Engine", Version: version}} }
	}
	version := func(networks ...string) func(docker.About) finding {
		return func(a docker.About) finding { return checkEngineVersion(a, networks) }
	}
	runtimes := func(names ...string) func(docker.About) finding {
		return func(a docker.About) finding { return checkRuntimes(a, withRuntimes(names...)) }
	}
	runcOf := func(names ...string) func(docker.About) finding {
		return func(a docker.About) finding { return checkRunc(a, withRuntimes(names...)) }
	}
	users := func(refused map[string]error) func(docker.About) finding {
		return func(a docker.About) finding { return checkUsers(a, refused, "look") }
	}
	for _, test := range []struct {
		name   string
		change func(*docker.About)
		check  func(docker.About) finding
		want   verdict
		says   string
	}{
		{"engine", nil, version("lan"), verdictOK, "Docker 28.5.2"},
		{"old engine", engine("20.10.24"), version(), verdictWarn, "December 2023"},
		{"old engine with a network", engine("24.0.9"), version("lan"), verdictWarn, "CVE-2024-29018"},
		{"old engine without a network", engine("24.0.9"), version(), verdictOK, "24.0.9"},
		{"engine without a number", engine("library-import"), version("lan"), verdictOK, "not a release"},
		{"podman", func(a *docker.About) { a.Components = []docker.Component{{Name: "Podman Engine", Version: "4.3"}} }, version("lan"), verdictOK, "is not Docker:"},

		{"runtimes", nil, runtimes("", "runsc"), verdictOK, "runc is the default; also available: runsc"},
		{"no hard tier", func(a *docker.About) { a.Runtimes = []string{"runc"} }, runtimes(""), verdictOK, "commands share the host's"},
		{"missing runtime", nil, runtimes("", "crun"), verdictFail, `profile "p1" has runtime "crun"`},
		{"unlisted shim", nil, runtimes("io.containerd.runsc.v1"), verdictOK, "does not list"},

		{"runc", nil, runcOf(""), verdictOK, "runc 1.3.3"},
		{"old runc", runc("1.1.12"), runcOf(""), verdictWarn, "CVE-2025-31133"},
		{"old runc, by name", runc("1.1.12"), runcOf("runsc", "runc"), verdictWarn, "CVE-2025-31133"},
		{"old runc, no configuration", runc("1.1.12"), runcOf(), verdictWarn, "CVE-2025-31133"},
		{"old runc, unused", runc("1.1.12"), runcOf("runsc"), verdictOK, "no profile uses it"},
		{"secretive engine", runc("unknown"), runcOf(""), verdictWarn, "does not report"},

		{"limits", nil, checkLimits, verdictOK, "cgroup v2"},
		{"no swap limit", func(a *docker.About) { a.Limits.Swap = false }, checkLimits, verdictWarn, "swap"},
		{"no limits", func(a *docker.About) { a.Limits = docker.LimitSupport{} }, checkLimits, verdictFail, "limits.memory, limits.cpus, limits.pids"},

		{"seccomp", nil, checkSeccomp, verdictOK, "own profile"},
		{"no seccomp", func(a *docker.About) { a.Security = []string{"name=seccomped"} }, checkSeccomp, verdictFail, "no seccomp"},
		{"AppArmor", nil, checkAppArmor, verdictOK, "AppArmor confines"},
		{"SELinux", func(a *docker.About) { a.Security = []string{"name=selinux"} }, checkAppArmor, verdictOK, "SELinux confines"},
		{"neither", func(a *docker.About) { a.Security = nil }, checkAppArmor, verdictWarn, "neither AppArmor nor SELinux"},
		{"rootless", func(a *docker.About) { a.Security = []string{"name=rootless"} }, users(nil), verdictOK, "never run as root"},
		{"users", nil, users(nil), verdictOK, "only with gVisor"},
		{"remapped", func(a *docker.About) { a.Security = []string{"name=userns"} }, users(nil), verdictOK, "is an unprivileged user"},
		{"root refused", nil, users(map[string]error{"bench": &sandbox.Error{Message: "root on the host", Hint: "use oci"}}), verdictFail, `profile "bench": root on the host`},
		{"storage", nil, checkStorage, verdictOK, "overlay2"},

		{"no warnings", nil, checkWarnings, verdictOK, "none"},
		{"told by limits", func(a *docker.About) { a.Warnings = []string{"WARNING: No swap limit support"} }, checkWarnings, verdictOK, "none"},
		{"harmless", func(a *docker.About) { a.Warnings = []string{"WARNING: bridge-nf-call-iptables is disabled"} }, checkWarnings, verdictOK, "bridge-nf"},
		{"open to all", func(a *docker.About) {
			a.Warnings = []string{"WARNING: API is accessible on http://0.0.0.0:2375 without encryption."}
		}, checkWarnings, verdictWarn, "2375"},
		{"another host's disk", nil, checkEngineDisk, verdictOK, "another host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := goodEngine()
			if test.change != nil {
				test.change(&a)
			}
			got := test.check(a)
			if got.Status != test.want || !strings.Contains(got.Text, test.says) {
				t.Errorf("found %v %q, want %v with %q", got.Status, got.Text, test.want, test.says)
			}
			if bad := got.Status > verdictSkip; bad != (got.Fix != "") {
				t.Errorf("%v has the fix %q", got.Status, got.Fix)
			}
		})
	}
}

func TestJudgeDisk(t *testing.T) {
	for free, want := range map[int64]verdict{0: verdictFail, 200<<20 - 1: verdictFail, 200 << 20: verdictWarn, 2<<30 - 1: verdictWarn, 2 << 30: verdictOK} {
		if got := judgeDisk("/tmp", "TMPDIR", free); got.Status != want {
			t.Errorf("judgeDisk(%d) = %v, want %v", free, got.Status, want)
		}
	}
}

func TestProblem(t *testing.T) {
	for _, test := range []struct {
		err       error
		text, fix string
	}{
		{&sandbox.Error{Message: "no engine", Hint: "start it", Err: errors.New("refused")}, "no engine: refused", "start it"},
		{&sandbox.Error{Message: "broken", Hint: "see: belljar doctor"}, "broken", "see the engine's log: journalctl -u docker"},
		{&sandbox.Error{Message: "broken", Hint: "see: belljar doctor; fix it"}, "broken", "fix it"},
		{&sandbox.Error{Message: "broken", Hint: "fix it; see: belljar doctor"}, "broken", "fix it"},
		{errors.New("strange"), "strange", "see the engine's log: journalctl -u docker"},
	} {
		if got := (&patient{}).problem(test.err); got != fail(test.fix, "%s", test.text) {
			t.Errorf("problem(%v) = %+v", test.err, got)
		}
	}
}

// Once a bug: in a cluster, the last advice was to read the log of Docker, and where the API server did not answer, the checks that were
// skipped were Docker's.
func TestDoctorIsOfTheConfiguredEngine(t *testing.T) {
	configured := func(kind, namespace string) *patient {
		return &patient{config: &config.Config{Engine: config.Engine{Kind: kind, Kubernetes: config.Kubernetes{Namespace: namespace}}}}
	}
	inside := inCluster(t, http.NotFound)
	for name, c := range map[string]struct {
		p           *patient
		last        string
		first, none string // a check that is shown, and one that is not
	}{
		"no configuration":     {&patient{}, "journalctl -u docker", "runc", "rights"},
		"docker":               {configured(config.EngineDocker, ""), "journalctl -u docker", "engine-version", "cgroups"},
		"auto":                 {configured(config.EngineAuto, ""), "journalctl -u docker", "engine-version", "cgroups"},
		"oci":                  {configured(config.EngineOCI, ""), "journalctl -k", "cgroups", "runc"},
		"no cluster":           {configured(config.EngineKubernetes, ""), "kubectl get events; kubectl auth can-i --list", "rights", "runc"},
		"no cluster, but name": {configured(config.EngineKubernetes, "there"), "kubectl get events -n there; kubectl auth can-i --list -n there", "pod-seccomp", "engine-version"},
		"a cluster":            {inside, "kubectl get events -n ns; kubectl auth can-i --list -n ns", "admission", "engine-version"},
	} {
		wantFinding(t, name, c.p.problem(errors.New("strange")), verdictFail, "strange", c.last)
		var shown []string
		for _, check := range checks {
			if check.needs == nil || check.needs(c.p) != notThisEngine {
				shown = append(shown, check.name)
			}
		}
		if !slices.Contains(shown, c.first) || slices.Contains(shown, c.none) {
			t.Errorf("%s: %q", name, shown)
		}
	}
}

func TestConfigProblem(t *testing.T) {
	one := &config.Problem{Place: "sandbox.yaml", Line: 2, Key: "timeout", Message: "30 has no unit", Hint: "write 30s"}
	two := &config.Problem{Place: "sandbox.yaml", Line: 3, Key: "foo", Message: "unknown key"}
	const fix = "fix the configuration, then run: belljar doctor"
	for _, test := range []struct {
		err       error
		text, fix string
	}{
		{one, "sandbox.yaml:2: timeout: 30 has no unit", "write 30s"},
		{config.Problems{one}, "sandbox.yaml:2: timeout: 30 has no unit", "write 30s"},
		{config.Problems{two}, "sandbox.yaml:3: foo: unknown key", fix},
		{config.Problems{one, two}, "sandbox.yaml:2: timeout: 30 has no unit (write 30s); sandbox.yaml:3: foo: unknown key", fix},
		{errors.New("reading it"), "reading it", fix},
	} {
		if got := configProblem(test.err); got != fail(test.fix, "%s", test.text) {
			t.Errorf("configProblem(%v) = %+v", test.err, got)
		}
	}
	if one.Hint == "" {
		t.Error("the problem itself lost its hint")
	}
}

// goodTrial is a command that went as it should.
func goodTrial() trial {
	status := "Uid: 65534\t65534\t65534\t65534\nCapEff: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n"
	return trial{result: sandbox.Result{
		Status: sandbox.StatusError, Cause: sandbox.CauseExited, ExitCode: 3,
		Stdout:    sandbox.Output{Head: []byte(status)},
		Lingering: []sandbox.Process{{PID: 8, Command: "sleep 100"}},
		Container: sandbox.ContainerInfo{Runtime: "runc"},
	}}
}

func TestTrial(t *testing.T) {
	judge := func(t trial) finding { return t.judge(sandbox.User{UID: 65534, GID: 65534}) }
	byName := func(t trial) finding { return t.judge(sandbox.User{Name: "nobody"}) }
	stdout := func(t *trial, old, new string) {
		t.result.Stdout.Head = []byte(strings.ReplaceAll(string(t.result.Stdout.Head), old, new))
	}
	for _, test := range []struct {
		name   string
		change func(*trial)
		judge  func(trial) finding
		want   verdict
		says   string
	}{
		{"good", func(*trial) {}, judge, verdictOK, "are correct"},
		{"by name", func(t *trial) { t.result.User = sandbox.User{UID: 65534, GID: 65534, Name: "nobody"} }, byName, verdictOK, "are correct"},
		{"by a name of another", func(t *trial) { t.result.User = sandbox.User{UID: 1000, GID: 50, Name: "nobody"} }, byName, verdictFail, "Uid"},
		{"exit code", func(t *trial) { t.result.ExitCode = 0 }, judge, verdictFail, "exit code 0"},
		{"timeout", func(t *trial) { t.result.Cause = sandbox.CauseWallTimeout }, judge, verdictFail, "wall_timeout"},
		{"root", func(t *trial) { stdout(t, "65534", "0") }, judge, verdictFail, `Uid "0 0 0 0"`},
		{"no seccomp", func(t *trial) { stdout(t, "Seccomp: 2", "Seccomp: 0") }, judge, verdictFail, `Seccomp "0"`},
		{"no gVisor, by its name", func(t *trial) { stdout(t, "Seccomp: 2", "Seccomp: 0"); t.result.Container.Runtime = "runsc" }, judge, verdictFail, `Seccomp "0"`},
		{"Kata has no seccomp to show", func(t *trial) { stdout(t, "Seccomp: 2", "Seccomp: 0"); t.result.Container.Runtime = "kata-qemu" }, judge, verdictOK, ""},
		{"gVisor, by any name", func(t *trial) {
			stdout(t, "NoNewPrivs: 1\nSeccomp: 2", "Seccomp: 0\nKernel: Linux version 4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016")
			t.result.Container.Runtime = "hard"
		}, judge, verdictOK, ""},
		{"gVisor's root", func(t *trial) {
			stdout(t, "CapEff: 0000000000000000", "CapEff: 0000000000000020\nKernel: Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016")
		}, judge, verdictFail, "CapEff"},
		{"no output", func(t *trial) { t.result.Stdout.Head = nil }, judge, verdictFail, `CapEff "" instead of`},
		{"container left", func(t *trial) { t.left = true }, judge, verdictFail, "still exists"},

		{"listed", func(*trial) {}, trial.judgeList, verdictOK, "lists the processes that"},
		{"no ps, but the kernel", func(t *trial) { t.top = errors.New("no ps") }, trial.judgeList, verdictOK, "no ps"},
		{"no ps", func(t *trial) { t.result.Evidence.ListError = "no ps" }, trial.judgeList, verdictWarn, "leaves running: no ps"},
		{"did not list it", func(t *trial) { t.result.Lingering = nil }, trial.judgeList, verdictFail, "did not list it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			trial := goodTrial()
			test.change(&trial)
			if got := test.judge(trial); got.Status != test.want || !strings.Contains(got.Text, test.says) {
				t.Errorf("judged %v %q, want %v with %q", got.Status, got.Text, test.want, test.says)
			}
		})
	}
}
