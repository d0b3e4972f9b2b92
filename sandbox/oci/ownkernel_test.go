package oci_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/oci"
)

// likeGVisor is a runtime that is called as gVisor's is: another one, without a kernel of its own.
func likeGVisor(t *testing.T, runtime string) string {
	t.Helper()
	path, err := exec.LookPath(runtime)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "runsc-"+runtime)
	text := `#!/bin/sh
n=0 args=
for arg; do
	case $skip$arg in
	--platform=* | --network=* | --overlay2=*) ;;
	--pass-fd) skip=: ;;
	:*) skip= n=$((n+1)) ;;
	*) args="$args $arg" ;;
	esac
done
exec ` + path + ` ${args%--bundle*} --preserve-fds $n --bundle ${args##*--bundle}
`
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

// ps listed the sentry and its helpers, with this host's PIDs, as the commands of a container that has a kernel of its own.
func TestProcessesOfAnotherKernelAreListedInside(t *testing.T) {
	list := []string{os.Getenv(runscEnv)}
	if list[0] == "" {
		list = list[:0]
		for _, runtime := range runtimes(t) {
			list = append(list, likeGVisor(t, runtime))
		}
	}
	for _, runtime := range list {
		dir := t.TempDir()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		for _, session := range []string{"kept", ""} {
			spec := specOf(t)
			spec.Session = session
			box := create(t, engine, spec)
			run(t, box, nobody, "sleep 1000 >/dev/null 2>&1 & until grep -q ^sleep /proc/$!/cmdline; do :; done")
			for range 20 { // more than there are channels: each is given back
				other := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
				all, err := other.List(t.Context())
				for len(all) > 1 && all[0].ID != box.Info().ID {
					all = all[1:]
				}
				if err != nil || len(all) == 0 {
					t.Fatalf("%v, error %v", all, err)
				}
				begin := time.Now()
				err = other.FillProcesses(t.Context(), &all[0])
				switch runs := all[0].Runs; {
				case session == "":
					if runs != nil || sandbox.CauseOf(err) != sandbox.CauseEngine {
						t.Errorf("%s: %+v, error %v", runtime, runs, err)
					}
				case err != nil || len(runs) != 1 || runs[0].Command != "sleep 1000" || runs[0].HostPID != 0:
					t.Errorf("%s: %+v, error %v, after %v", runtime, runs, err, time.Since(begin))
				}
			}
		}
	}
}
