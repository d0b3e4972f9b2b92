// Command kubernetes reads manifests as Kubernetes' own types, with every field known
// and none twice, and prints them as one list in JSON. Its modules are in kubernetes.mod.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	var list []any
	for _, name := range os.Args[1:] {
		objects, err := read(name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		list = append(list, objects...)
	}
	if err := json.NewEncoder(os.Stdout).Encode(list); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kinds are those that the manifests have.
var kinds = map[string]func() any{
	"v1 ConfigMap":                                    func() any { return &core.ConfigMap{} },
	"v1 Namespace":                                    func() any { return &core.Namespace{} },
	"v1 Service":                                      func() any { return &core.Service{} },
	"v1 ServiceAccount":                               func() any { return &core.ServiceAccount{} },
	"apps/v1 Deployment":                              func() any { return &apps.Deployment{} },
	"networking.k8s.io/v1 NetworkPolicy":              func() any { return &networking.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":                   func() any { return &policy.PodDisruptionBudget{} },
	"rbac.authorization.k8s.io/v1 ClusterRole":        func() any { return &rbac.ClusterRole{} },
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding": func() any { return &rbac.ClusterRoleBinding{} },
	"rbac.authorization.k8s.io/v1 Role":               func() any { return &rbac.Role{} },
	"rbac.authorization.k8s.io/v1 RoleBinding":        func() any { return &rbac.RoleBinding{} },
	"kustomize.config.k8s.io/v1beta1 Kustomization":   func() any { return &kustomization{} },
}

// kustomization is what kubectl apply -k reads, as far as a file here has it.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Images     []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
}

func read(name string) (list []any, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, err
		}
		fresh := kinds[kind.APIVersion+" "+kind.Kind]
		if fresh == nil {
			return nil, fmt.Errorf("document %d is a %s of %s", i+1, kind.Kind, kind.APIVersion)
		}
		object := fresh()
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		list = append(list, object)
	}
	return list, nil
}
