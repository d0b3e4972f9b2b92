package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

var dockerAnswers = sync.OnceValue(func() bool {
	return exec.Command("docker", "version", "--format", "{{.Server.Version}}").Run() == nil
})

// engineKind is the engine that the belljars under test use: as BELLJAR_ENGINE_KIND says, or else
// Docker's, or, where none answers, an OCI runtime without a daemon.
var engineKind = sync.OnceValue(func() string {
	switch kind := os.Getenv("BELLJAR_ENGINE_KIND"); {
	case kind == "oci", kind == "docker", kind == "kubernetes":
		return kind
	case dockerAnswers():
		return "docker"
	}
	return "oci"
})

func onOCI() bool    { return engineKind() == "oci" }
func onDocker() bool { return engineKind() == "docker" }

// startedByDocker reports whether Docker's engine starts the commands, instead of belljar's init.
func startedByDocker() bool { return onDocker() && os.Getenv("BELLJAR_ENGINE_INIT") == "none" }

// onPods is for the cluster of make test-kubernetes.
func onPods() bool { return engineKind() == "kubernetes" }

func engineAnswers() bool {
	switch {
	case onPods():
		return os.Getenv("CLUSTER") != ""
	case onDocker():
		return dockerAnswers()
	}
	return hasRuntime()
}

// hasRuntime reports whether containers can be made without a daemon.
func hasRuntime() bool {
	for _, name := range []string{"crun", "runc"} {
		if _, err := exec.LookPath(name); err == nil {
			return os.Getuid() == 0
		}
	}
	return false
}

// bothEngines reports whether these tests run twice, once on each engine: see scripts/test.
var bothEngines = os.Getenv("E2E_ENGINES") == "both"

// needEngine is for tests that any engine will do for. Where they run on both, the one
// without a daemon has them, whose containers cost a fifth.
func needEngine(t *testing.T) {
	t.Helper()
	needOnce(t)
	needEachEngine(t)
}

// needOnce is for tests that are too long to run on both engines.
func needOnce(t *testing.T) {
	t.Helper()
	if bothEngines && !onOCI() {
		t.Skip("this runs on the engine without a daemon")
	}
}

// needPlain is for tests that compute much in their own process, and use no engine. Where they run on
// both, Docker's has them, which are built without the race detector.
func needPlain(t *testing.T) {
	t.Helper()
	if bothEngines && onOCI() {
		t.Skip("this runs without the race detector")
	}
}

// needEachEngine is for tests that run on every engine that is here. It fails in CI, where a
// skipped test is a failed one.
func needEachEngine(t *testing.T) {
	t.Helper()
	wantPods(t)
	if engineAnswers() {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("there is no engine")
	}
	t.Skip("there is no engine: see scripts/engine")
}

// needDocker is for tests of what only Docker has, or that use its command. Where the
// belljars under test use another engine, they are skipped also in CI, which runs both.
func needDocker(t *testing.T) {
	t.Helper()
	wantPods(t)
	if !onDocker() {
		t.Skip("this is about Docker's engine")
	}
	needEachEngine(t)
}

// imageStore is that of an engine without a daemon, for all tests.
var imageStore string

// stateIn has a belljar keep its state in dir. Where the engine is no daemon, the images are the
// same for all tests: each would take as long to make them as for all that it tests.
func stateIn(t *testing.T, dir string) string {
	t.Helper()
	switch {
	case onOCI():
		shareImages(t, filepath.Join(dir, "belljar", "images"))
	case onPods():
		recallImages(t, filepath.Join(dir, "belljar", "kubernetes"))
	}
	return "XDG_STATE_HOME=" + dir
}

// sharing is held while a directory becomes the images'.
var sharing sync.Mutex

// shareImages makes dir the images' until the test ends, unless it is that already.
func shareImages(t *testing.T, dir string) {
	t.Helper()
	sharing.Lock()
	defer sharing.Unlock()
	here, err := os.Stat(dir)
	if there, failed := os.Stat(imageStore); err == nil && failed == nil && os.SameFile(here, there) {
		return
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(imageStore, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the directory is removed: or the images would be
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			panic(fmt.Sprintf("unmounting the images: %v", err))
		}
	})
}

// withoutEngine has a belljar find none.
func withoutEngine(c *exec.Cmd) {
	c.Env = append(c.Environ(), "DOCKER_HOST=unix:///nowhere", "BELLJAR_ENGINE_RUNTIME=/nowhere", "KUBECONFIG=/nowhere")
}

// ofEngine is a container of an engine without a daemon, or a pod.
type ofEngine struct {
	Session       string
	Own           bool // its session ends with who made it
	Image         struct{ ID string }
	First, Parent struct{ PID int } // the init and the runtime

	id, maker string // maker is the process that made it, as PID@start
	note      string // the rest, too
}

// enginesContainers are those of an engine without a daemon, whatever their state directory is: the
// control groups that carry belljar's name, and the notes on them. Or they are the pods.
func enginesContainers() (list []ofEngine) {
	if onPods() {
		return pods()
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/pids/belljar-*")
	unified, _ := filepath.Glob("/sys/fs/cgroup/belljar-*") // of version 2
	space, _ := os.Readlink("/proc/self/ns/pid")
	for _, group := range append(groups, unified...) {
		name := strings.Split(filepath.Base(group), "-") // belljar, the maker's PID namespace, the maker, the ID
		if len(name) != 4 || !strings.Contains(space, name[1]) {
			continue
		}
		c := ofEngine{id: name[3], maker: name[2]}
		text := make([]byte, 64<<10)
		if n, err := unix.Getxattr(group, "trusted.belljar", text); err == nil { // one that begins has none
			c.note = string(text[:n])
			if err := json.Unmarshal(text[:n], &c); err != nil {
				panic(fmt.Sprintf("the note on %s: %v: %s", group, err, c.note))
			}
		}
		list = append(list, c)
	}
	return list
}

// lineOf has a container's labels as docker ps shows them.
func (c ofEngine) lineOf() string {
	return fmt.Sprintf("%s dev.belljar.process=%s,dev.belljar.session=%s", c.id, c.maker, c.Session)
}

// containers are belljar's, of all that the filters want.
func containers(filters ...string) string {
	if !onDocker() {
		var lines []string
		for _, c := range enginesContainers() {
			wanted := true
			for _, f := range filters {
				wanted = wanted && strings.Contains(c.lineOf()+",", strings.TrimPrefix(f, "label=")+",")
			}
			if wanted {
				lines = append(lines, c.lineOf())
			}
		}
		return strings.Join(lines, "\n")
	}
	args := []string{"ps", "-a", "--filter", "label=dev.belljar.managed=true", "--format", "{{.ID}} {{.Status}} {{.Labels}}"}
	for _, f := range filters {
		args = append(args, "--filter", f)
	}
	out, _ := exec.Command("docker", args...).Output()
	return strings.TrimSpace(string(out))
}

// orphans are containers whose belljar is gone: all that these tests start
// is. Other packages' tests may run beside these. Sessions outlive their belljar.
func orphans() string {
	var left []string
	if !onDocker() {
		for _, c := range enginesContainers() {
			kept := c.Session != "" && !c.Own && (onPods() || runs(c.First.PID))
			if !kept && !lives(c.maker) {
				left = append(left, c.lineOf())
			}
		}
		return strings.Join(left, "\n")
	}
	out, _ := exec.Command("docker", "ps", "-a", "--filter", "label=dev.belljar.managed=true", "--format",
		`{{.ID}}|{{.State}}|{{.Label "dev.belljar.session"}}|{{.Label "dev.belljar.process"}}`).Output() // without an engine there are no tests
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) == 4 && fields[3] != "" && (fields[2] == "" || fields[1] == "created") && !lives(fields[3]) {
			left = append(left, fields[0])
		}
	}
	return strings.Join(left, "\n")
}

// removeSession removes what is left of one. Of a sidecar that keeps its own state, no other belljar
// sees it: there its init is ended.
func removeSession(name string) {
	ids := containersOf(name)
	for _, id := range ids {
		if !onDocker() {
			kill(id)
		}
	}
	if len(ids) > 0 && onDocker() {
		exec.Command("docker", append([]string{"rm", "-f"}, ids...)...).Run()
	}
}

// containersOf are the IDs of a session's containers.
func containersOf(session string) (ids []string) {
	if !onDocker() {
		for _, c := range enginesContainers() {
			if c.Session == session {
				ids = append(ids, c.id)
			}
		}
		return ids
	}
	out, _ := exec.Command("docker", "ps", "-aq", "--no-trunc", "--filter", "label=dev.belljar.session="+session).Output()
	return strings.Fields(string(out))
}
