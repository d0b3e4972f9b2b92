package oci_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"belljar/images"
	"belljar/internal/boxinit/boxinittest"
	"belljar/sandbox"
	"belljar/sandbox/oci"
	"belljar/sandbox/sandboxtest"

	"go.uber.org/goleak"
)

// TestMain has four tests at once, which wait more than they compute. After them
// no container of this process may be left, and the host's devices are as they were.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "4")
	}
	changed := hostsDevices()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(madeStore)
		if os.Getenv(storeEnv) == "" {
			boxinittest.Clean()
		}
		if left := oci.Left(); len(left) > 0 {
			fmt.Fprintln(os.Stderr, "FAIL: containers are left behind:", left)
			code = 1
		}
		if list := changed(); len(list) > 0 {
			fmt.Fprintln(os.Stderr, "FAIL: devices of the host were changed:", list)
			code = 1
		}
		os.Exit(code)
	}))
}

// runtimes are those of this host. Without one a test is skipped, except in CI.
func runtimes(t *testing.T) (list []string) {
	t.Helper()
	for _, name := range []string{"crun", "runc"} {
		if _, err := exec.LookPath(name); err == nil {
			list = append(list, name)
		}
	}
	if os.Geteuid() != 0 && os.Getenv(rootlessEnv) == "" || len(list) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("CI needs root, and crun or runc")
		}
		t.Skip("NOT ROOT, OR NO RUNTIME: NOT TESTED")
	}
	return list
}

// needCrun is for tests of what only crun does.
func needCrun(t *testing.T) {
	t.Helper()
	if list := runtimes(t); slices.Contains(list, "crun") {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("CI needs crun")
	}
	t.Skip("NO CRUN: NOT TESTED")
}

// runscEnv is the path of gVisor's runtime, for tests that are for it, too: see make test-gvisor.
const runscEnv = "RUNSC"

// withGVisor are the runtimes, and gVisor's where it is given.
func withGVisor(t *testing.T) []string {
	list := runtimes(t)
	if path := os.Getenv(runscEnv); path != "" {
		list = append(list, path)
	}
	return list
}

// open is an engine over a runtime, for one test.
func open(t *testing.T, runtime string) *oci.Engine {
	t.Helper()
	return openIn(t, oci.Config{Dir: t.TempDir(), Runtime: runtime})
}

func openIn(t *testing.T, config oci.Config) *oci.Engine {
	t.Helper()
	disk, _ := base(t)
	config.Init, config.Roots = initProgram(t), disk
	engine, err := oci.Open(config)
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

// each calls test with every runtime.
func each(t *testing.T, test func(t *testing.T, runtime string)) {
	eachOf(t, runtimes(t), test)
}

// eachWithGVisor calls test with gVisor's, too, where it is given.
func eachWithGVisor(t *testing.T, test func(t *testing.T, runtime string)) {
	eachOf(t, withGVisor(t), test)
}

func eachOf(t *testing.T, list []string, test func(t *testing.T, runtime string)) {
	for _, runtime := range list {
		t.Run(filepath.Base(runtime), func(t *testing.T) {
			t.Parallel()
			test(t, runtime)
		})
	}
}

// storeEnv is the directory of images that another process of these tests made.
const storeEnv = "BELLJAR_TEST_OCI_STORE"

// store has the image that belljar builds itself. madeStore is its directory, if this process made it.
var (
	store = sync.OnceValues(func() (*images.Disk, error) {
		if dir := os.Getenv(storeEnv); dir != "" {
			return &images.Disk{Dir: dir}, nil
		}
		var err error
		madeStore, err = os.MkdirTemp("", "belljar-oci-store-")
		return &images.Disk{Dir: filepath.Join(madeStore, "images")}, err
	})
	madeStore string
)

// base is the store and its image.
func base(t testing.TB) (*images.Disk, sandbox.Image) {
	t.Helper()
	disk, err := store()
	if err != nil {
		t.Fatal(err)
	}
	image, err := disk.Resolve(t.Context(), "belljar/base", sandbox.PullMissing)
	if err != nil {
		t.Fatal(err)
	}
	return disk, image
}

func TestEngine(t *testing.T) {
	eachWithGVisor(t, func(t *testing.T, runtime string) {
		sandboxtest.TestEngine(t, func(t *testing.T) (sandbox.Engine, sandbox.Image) {
			_, image := base(t)
			return open(t, runtime), image
		})
	})
}

// initProgram is a program that is an init.
func initProgram(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(makerEnv + "_INIT"); path != "" {
		return path
	}
	return boxinittest.Binary(t)
}
