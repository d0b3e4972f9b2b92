package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// role is what a Role gives, as "verb group/resource".
func role(t *testing.T, text []byte) (all []string) {
	t.Helper()
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object struct {
			Kind  string
			Rules []struct {
				Groups    []string `yaml:"apiGroups"`
				Resources []string
				Verbs     []string
			}
		}
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if object.Kind != "Role" {
			continue
		}
		for _, r := range object.Rules {
			for _, verb := range r.Verbs {
				all = append(all, verb+" "+r.Groups[0]+"/"+r.Resources[0])
			}
		}
	}
}

// The Role that users apply, and that of the documentation, have the rights that the doctor asks for, and no other.
func TestRole(t *testing.T) {
	want := map[string]bool{}
	for _, r := range rights {
		want[strings.TrimSuffix(r.verb+" "+r.group+"/"+r.resource+"/"+r.subresource, "/")] = true
	}
	file, err := os.ReadFile("../../deploy/kubernetes/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\napiVersion: v1\nkind: Namespace\n")
	block, _, _ = strings.Cut(block, "```")
	for name, text := range map[string][]byte{"deploy/kubernetes/role.yaml": file, "docs/kubernetes.md": []byte("kind: Namespace\n" + block)} {
		got := role(t, text)
		slices.Sort(got)
		if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s has %q, want %q", name, got, slices.Sorted(maps.Keys(want)))
		}
	}
}
