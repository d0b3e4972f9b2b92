package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The adapter for inspect_ai does what a sandbox of it must do. inspect_ai's own check, which is not
// ours, is run by deploy/inspect/check.
func TestInspect(t *testing.T) {
	t.Parallel()
	s := newRemoteFiles(t)
	here, err := filepath.Abs("testdata/inspect")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "../deploy/inspect/check")
	cmd.Env = append(os.Environ(), "INSPECT_SELF_CHECK="+here+"/self_check.py", "BELLJAR_HOST=unix://"+s.socket, "PYTHONPATH="+here, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
