package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// listPackages is the module's packages and all that they depend on.
func listPackages(t *testing.T) map[string]goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]goPackage{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

func TestLayering(t *testing.T) {
	all := listPackages(t)
	const domain, client = "belljar/sandbox", "github.com/docker/docker"
	parts := []string{"belljar/policy", "belljar/images", "belljar/sandbox/docker", "belljar/sandbox/client", "belljar/view", "belljar/audit", "belljar/config", "belljar/cmd/belljar"}

	for _, dep := range all[domain].Deps {
		if !all[dep].Standard {
			t.Errorf("%s depends on %s: it imports the standard library only", domain, dep)
		}
	}
	for _, part := range parts[:6] {
		for _, dep := range all[part].Deps {
			if dep != part && slices.Contains(parts, dep) {
				t.Errorf("%s depends on %s: parts import the domain, never each other", part, dep)
			}
		}
	}
	for _, dep := range all["belljar/config"].Deps {
		if dep == "belljar/sandbox/docker" || dep == "belljar/cmd/belljar" {
			t.Errorf("config depends on %s: it holds data types only", dep)
		}
	}
	for path, p := range all {
		if !strings.HasPrefix(path, "belljar/") || path == "belljar/sandbox/docker" || path == "belljar/images" {
			continue
		}
		for _, imported := range p.Imports {
			if imported == client || strings.HasPrefix(imported, client+"/") {
				t.Errorf("%s imports %s: only sandbox/docker and images talk to the engine", path, imported)
			}
		}
	}
	if len(all[domain].Imports) == 0 {
		t.Errorf("go list does not know %s", domain)
	}
}
