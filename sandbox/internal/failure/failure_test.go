package failure

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestHints(t *testing.T) {
	for hint, errs := range map[string][]error{
		"make room": {
			&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, &os.LinkError{Op: "rename", Old: "x", New: "y", Err: syscall.ENOSPC},
		},
		"mounts or namespaces": {syscall.ENOSPC, &fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOSPC}, os.NewSyscallError("mount", syscall.ENOSPC)},
		"processes":            {&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EAGAIN}},
		"belljar doctor":       {nil, &fs.PathError{Op: "read", Path: "x", Err: syscall.EAGAIN}, syscall.EPERM},
	} {
		for _, err := range errs {
			if got := New(err, "doing it").Hint(general).Hint; !strings.Contains(got, hint) {
				t.Errorf("%v: %q", err, got)
			}
		}
	}
}
