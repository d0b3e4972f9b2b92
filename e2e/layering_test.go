package e2e

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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

// dependencies are the packages of the module that each of its packages may depend on.
var dependencies = map[string][]string{
	"belljar":                    {"internal/input", "internal/spare", "internal/lifeline", "sandbox/internal/failure", "sandbox/internal/imagefile", "sandbox/internal/initfile", "internal/boxinit", "internal/boxinit/wire", "sandbox/internal/boxlink", "internal/lazyregexp", "sandbox", "sandbox/listing", "internal/limits", "sandbox/local", "sandbox/docker", "sandbox/internal/bindmount", "sandbox/internal/cgroup", "sandbox/internal/lockdown", "sandbox/internal/proc", "sandbox/internal/userns", "sandbox/internal/control", "sandbox/internal/gate", "sandbox/internal/mask", "sandbox/internal/record", "sandbox/internal/spool", "internal/hostprog", "internal/ownfile", "internal/sniff", "policy", "images", "audit", "view", "config", "internal/archive", "internal/names", "internal/shellargs", "internal/target", "sandbox/oci", "sandbox/kubernetes", "sandbox/internal/kube"},
	"sandbox":                    nil,
	"sandbox/local":              {"sandbox/internal/failure", "internal/input", "internal/spare", "internal/lazyregexp", "sandbox", "internal/limits", "sandbox/internal/control", "sandbox/internal/gate", "sandbox/internal/mask", "sandbox/internal/record", "sandbox/internal/spool", "internal/hostprog", "internal/ownfile", "internal/sniff", "internal/shellargs", "internal/target", "internal/names", "internal/archive"},
	"sandbox/internal/control":   {"sandbox"},
	"sandbox/internal/gate":      {"sandbox", "internal/names", "internal/shellargs", "internal/target"},
	"sandbox/internal/mask":      {"internal/lazyregexp"},
	"sandbox/internal/record":    {"sandbox", "sandbox/internal/gate", "internal/ownfile", "internal/names", "internal/shellargs", "internal/target"},
	"sandbox/internal/spool":     {"internal/spare", "sandbox", "sandbox/internal/control", "internal/ownfile", "internal/names", "internal/sniff"},
	"sandbox/internal/bindmount": {"sandbox", "sandbox/internal/failure", "sandbox/internal/cgroup", "sandbox/internal/proc"},
	"sandbox/internal/cgroup":    nil,
	"sandbox/internal/failure":   {"sandbox"},
	"sandbox/internal/imagefile": {"sandbox", "sandbox/internal/failure"},
	"sandbox/internal/initfile":  nil,
	"sandbox/internal/lockdown":  {"sandbox"},
	"sandbox/internal/proc":      {"sandbox", "sandbox/internal/cgroup"},
	"sandbox/internal/userns":    {"sandbox", "internal/ownfile"},
	"sandbox/docker":             {"sandbox/internal/failure", "sandbox/internal/imagefile", "sandbox/internal/initfile", "internal/boxinit", "internal/boxinit/wire", "sandbox/internal/boxlink", "internal/hostprog", "sandbox", "sandbox/listing", "sandbox/internal/bindmount", "sandbox/internal/cgroup", "sandbox/internal/lockdown", "sandbox/internal/proc", "internal/shellargs", "internal/target"},
	"sandbox/oci":                {"internal/lifeline", "sandbox/internal/failure", "sandbox/internal/imagefile", "internal/ownfile", "sandbox/internal/initfile", "sandbox", "sandbox/listing", "sandbox/internal/bindmount", "sandbox/internal/boxlink", "sandbox/internal/cgroup", "sandbox/internal/lockdown", "sandbox/internal/proc", "sandbox/internal/userns", "internal/boxinit", "internal/boxinit/wire", "internal/shellargs", "internal/target"},
	"sandbox/kubernetes":         {"sandbox/internal/kube", "sandbox/internal/failure", "sandbox/internal/imagefile", "internal/ownfile", "sandbox", "sandbox/listing", "sandbox/internal/boxlink", "sandbox/internal/cgroup", "sandbox/internal/lockdown", "sandbox/internal/proc", "internal/boxinit", "internal/boxinit/wire", "internal/shellargs", "internal/target"},
	"sandbox/internal/kube":      nil,
	"sandbox/client":             {"internal/input", "internal/filemode", "sandbox", "internal/names"},
	"sandbox/listing":            {"sandbox"},
	"sandbox/report":             {"sandbox", "view", "internal/sniff"},
	"sandbox/sandboxtest":        {"sandbox"},
	"internal/archive":           {"sandbox"},
	"internal/enginetest":        nil,
	"internal/filemode":          nil,
	"internal/hostprog":          nil,
	"internal/lazyregexp":        nil,
	"internal/lifeline":          nil,
	"internal/limits":            {"sandbox"},
	"internal/names":             {"sandbox"},
	"internal/ownfile":           {"sandbox"},
	"internal/shellargs":         {"sandbox"},
	"internal/shelltest":         nil,
	"internal/spare":             nil,
	"internal/input":             nil,
	"internal/sniff":             nil,
	"internal/target":            {"sandbox"},
	"policy":                     {"internal/lazyregexp", "sandbox", "internal/limits", "internal/target"},
	"images":                     {"internal/lazyregexp", "internal/ownfile", "internal/sniff", "sandbox", "view"},
	"audit":                      {"sandbox", "internal/ownfile"},
	"view":                       {"sandbox", "internal/sniff"},
	"eval/receipt":               {"eval/run", "internal/ownfile", "sandbox"},
	"eval/report":                {"eval/run", "internal/ownfile", "internal/sniff", "sandbox", "view"},
	"eval":                       {"eval/run", "eval/suite", "internal/lazyregexp", "internal/ownfile", "internal/target", "sandbox"},
	"eval/suite":                 {"eval/run", "internal/lazyregexp", "internal/ownfile", "internal/target", "sandbox"},
	"eval/run":                   {"internal/ownfile", "sandbox"},
	"config":                     {"internal/lazyregexp", "sandbox", "internal/limits", "policy", "images", "view", "internal/sniff", "internal/target", "internal/names"},
	"cmd/internal/template":      {"internal/lazyregexp", "sandbox"},
	"cmd/internal/executions":    {"internal/spare", "sandbox", "cmd/internal/problem", "internal/names", "internal/ownfile", "internal/sniff"},
	"cmd/internal/listen":        {"sandbox", "internal/ownfile", "cmd/internal/problem"},
	"cmd/internal/httpapi":       {"internal/spare", "internal/filemode", "internal/lazyregexp", "internal/archive", "sandbox", "cmd/internal/access", "cmd/internal/approvals", "cmd/internal/executions", "cmd/internal/owned", "cmd/internal/problem", "cmd/internal/replicas", "cmd/internal/strictjson", "internal/names", "internal/ownfile", "internal/sniff"},
	"cmd/internal/approvals":     {"sandbox"},
	"cmd/internal/mcpapi":        {"internal/spare", "internal/filemode", "internal/lazyregexp", "internal/limits", "internal/target", "policy", "sandbox", "sandbox/report", "view", "cmd/internal/access", "cmd/internal/approvals", "cmd/internal/executions", "cmd/internal/owned", "cmd/internal/problem", "cmd/internal/question", "cmd/internal/strictjson", "internal/names", "internal/ownfile", "internal/sniff"},
	"cmd/internal/question":      {"internal/limits", "internal/sniff", "sandbox", "view"},
	"cmd/internal/strictjson":    nil,
	"cmd/internal/owned":         {"internal/spare", "internal/lazyregexp", "sandbox", "cmd/internal/access", "cmd/internal/executions", "cmd/internal/problem", "internal/names", "internal/ownfile", "internal/sniff"},
	"cmd/internal/access":        {"internal/lazyregexp", "sandbox", "internal/names", "internal/ownfile", "cmd/internal/problem"},
	"cmd/internal/problem":       {"sandbox"},
	"cmd/internal/replicas":      {"internal/lazyregexp", "internal/names", "internal/ownfile", "sandbox", "cmd/internal/access", "cmd/internal/problem"},
	"cmd/internal/metrics":       {"sandbox"},
	"cmd/internal/page":          {"sandbox", "cmd/internal/problem"},
	"cmd/internal/tracing":       {"sandbox"},

	"internal/boxinit/wire":                nil,
	"internal/boxinit":                     {"internal/boxinit/wire"},
	"internal/boxinit/boxinittest":         {"internal/boxinit", "internal/boxinit/wire"},
	"internal/boxinit/boxinittest/program": {"internal/boxinit", "internal/boxinit/wire"},
	"sandbox/internal/boxlink":             {"sandbox", "internal/boxinit", "internal/boxinit/wire", "sandbox/internal/cgroup", "sandbox/internal/failure", "sandbox/internal/proc"},
}

// engineClients are the packages that may call an engine.
var engineClients = []string{"sandbox/docker", "images"}

// packageOf is the package's path in the module, or its name for the module's own.
func packageOf(path string) (pkg string, ours bool) {
	if path == "belljar" {
		return path, true
	}
	return strings.CutPrefix(path, "belljar/")
}

func TestLayering(t *testing.T) {
	needPlain(t)
	t.Parallel()
	const client = "github.com/docker/docker"
	all, found := listPackages(t), map[string]bool{}
	for path, p := range all {
		pkg, ours := packageOf(path)
		if !ours {
			continue
		}
		found[pkg] = true
		may, known := dependencies[pkg]
		if !known && pkg != "cmd/belljar" && pkg != "e2e" && !strings.HasPrefix(pkg, "e2e/") {
			t.Errorf("%s: add the packages that it may depend on to dependencies in this file", pkg)
		}
		for _, dep := range p.Deps {
			of, ours := packageOf(dep)
			if known && ours && !slices.Contains(may, of) {
				t.Errorf("%s depends on %s", pkg, of)
			}
		}
		if pkg == "sandbox" {
			for _, dep := range p.Deps {
				if !all[dep].Standard {
					t.Errorf("the contract depends on %s: it imports the standard library only", dep)
				}
			}
		}
		for _, imported := range p.Imports {
			if (imported == client || strings.HasPrefix(imported, client+"/")) && !slices.Contains(engineClients, pkg) {
				t.Errorf("%s imports %s: only %s may call the engine", pkg, imported, strings.Join(engineClients, " and "))
			}
		}
	}
	for pkg := range dependencies {
		if !found[pkg] {
			t.Errorf("go list knows no %s", pkg)
		}
	}
}

// The contract stays small enough to be read, and so does every file.
func TestSizes(t *testing.T) {
	needPlain(t)
	t.Parallel()
	contract := 0
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		lines := strings.Count(string(text), "\n")
		if lines > 300 {
			t.Errorf("%s has %d lines, over 300", name, lines)
		}
		if filepath.Dir(name) == "sandbox" {
			contract += lines
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if contract > 2000 {
		t.Errorf("the contract has %d lines, over 2000", contract)
	}
}

// wide are the structs that may have more than 20 fields: callers
// fill them in and read them.
var wide = []string{"Command", "Profile", "Result", "box"}

// A struct of more fields does several jobs.
func TestStructs(t *testing.T) {
	needPlain(t)
	t.Parallel()
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			of, ok := spec.Type.(*ast.StructType)
			if ok && of.Fields.NumFields() > 20 && !slices.Contains(wide, spec.Name.Name) {
				t.Errorf("%s: %s has %d fields, over 20", name, spec.Name.Name, of.Fields.NumFields())
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
