//go:build kubernetes

package kubernetes_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
	"belljar/sandbox/sandboxtest"

	"go.uber.org/goleak"
)

// These tests run on a cluster of their own: make test-kubernetes.

// namespace is these tests' own, in which pods must be restricted.
var namespace = "belljar-test-" + strings.ToLower(rand.Text()[:8])

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "6") // they wait more than they compute
	}
	if os.Getenv("CLUSTER") == "" {
		fmt.Fprintln(os.Stderr, "these tests need a cluster of their own: make test-kubernetes")
		os.Exit(1)
	}
	if os.Getenv(roleEnv) == "" {
		if err := makeNamespace(namespace); err != nil {
			fmt.Fprintln(os.Stderr, "making a namespace:", err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if left := left(namespace); left != "" {
			fmt.Fprintln(os.Stderr, "FAIL: left behind:", left)
			code = 1
		}
		kubectl("delete", "namespace", namespace, "--wait=false")
		os.RemoveAll(programDir)
		os.Exit(code)
	}))
}

var programDir string

// program is belljar's own, built once.
var program = sync.OnceValues(func() (name string, err error) {
	if programDir, err = os.MkdirTemp("", "belljar-test-"); err != nil {
		return "", err
	}
	name = filepath.Join(programDir, "belljar")
	build := exec.Command("go", "build", "-o", name, "../../cmd/belljar")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building belljar: %w: %s", err, out)
	}
	return name, nil
})

// environ is this process's environment for program, with nothing of belljar's but what is more.
func environ(more ...string) []string {
	return append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "BELLJAR_") }), more...)
}

// roleEnv makes the test program something else than a test.
const roleEnv = "BELLJAR_TEST_KUBERNETES_ROLE"

func kubectl(args ...string) (string, error) {
	cmd := exec.Command(os.Getenv("CLUSTER_PROGRAM"), append([]string{"kubectl"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %q: %w: %s", args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func mustKubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := kubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply makes objects, which JSON or YAML describes.
func apply(t testing.TB, text string) {
	t.Helper()
	cmd := exec.Command(os.Getenv("CLUSTER_PROGRAM"), "kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func makeNamespace(name string) error {
	if _, err := kubectl("create", "namespace", name); err != nil {
		return err
	}
	if _, err := kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted"); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		_, err := kubectl("-n", name, "get", "serviceaccount", "default")
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// left are the pods and leases of a namespace. Those in which nothing runs any more the kubelet still may have.
func left(namespace string) string {
	for try := 0; ; try++ {
		out, err := kubectl("-n", namespace, "get", "pods,leases", "-o", "name")
		switch {
		case err == nil:
			return out
		case try == 10:
			return "pod/unknown: " + err.Error()
		}
		time.Sleep(time.Second)
	}
}

const baseImage = "localhost/base:test"

func config() kubernetes.Config {
	return kubernetes.Config{Namespace: namespace, InitImage: "localhost/belljar:test", Pull: "Never"}
}

// open is an engine, for one test.
func open(t testing.TB, change ...func(*kubernetes.Config)) *kubernetes.Engine {
	t.Helper()
	c := config()
	c.Dir = t.TempDir()
	for _, change := range change {
		change(&c)
	}
	engine, err := kubernetes.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

var image = sync.OnceValues(func() (sandbox.Image, error) {
	c := config()
	engine, err := kubernetes.Open(c)
	if err != nil {
		return sandbox.Image{}, err
	}
	defer engine.Close()
	return engine.Resolve(context.Background(), baseImage, sandbox.PullMissing)
})

func base(t testing.TB) sandbox.Image {
	t.Helper()
	i, err := image()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestEngine(t *testing.T) {
	sandboxtest.TestEngine(t, func(t *testing.T) (sandbox.Engine, sandbox.Image) {
		return open(t), base(t)
	})
}
