package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// role is what the Roles of a namespace give, or with "" the ClusterRoles, as "verb group/resource".
func role(t *testing.T, namespace string, text []byte) (all []string) {
	t.Helper()
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object struct {
			Kind     string
			Metadata struct{ Namespace string }
			Rules    []struct {
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
		if object.Kind != "Role" && object.Kind != "ClusterRole" || object.Metadata.Namespace != namespace {
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
	named := func(rights []right) (names []string) {
		for _, r := range rights {
			names = append(names, strings.TrimSuffix(r.verb+" "+r.group+"/"+r.resource+"/"+r.subresource, "/"))
		}
		slices.Sort(names)
		return names
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
	for _, test := range []struct {
		name, namespace string
		text            []byte
		rights          []right
	}{
		{"deploy/kubernetes/role.yaml", "belljar-sandboxes", file, rights},
		{"deploy/kubernetes/role.yaml, of replicas", "belljar", file, leaseRights},
		{"deploy/kubernetes/role.yaml, of nodes", "", file, []right{nodeRight}},
		{"docs/kubernetes.md", "belljar-sandboxes", []byte("kind: Namespace\n" + block), rights},
	} {
		got := role(t, test.namespace, test.text)
		slices.Sort(got)
		if want := named(test.rights); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", test.name, got, want)
		}
	}
}
