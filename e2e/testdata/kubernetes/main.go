// Command kubernetes reads a manifest as Kubernetes' own types, with every field known
// and none twice, and prints them as a list in JSON. Its modules are in kubernetes.mod.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var list []any
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return err
		}
		object := map[string]any{"v1 ConfigMap": &core.ConfigMap{}, "apps/v1 Deployment": &apps.Deployment{}}[kind.APIVersion+" "+kind.Kind]
		if object == nil {
			return fmt.Errorf("document %d is a %s of %s", i+1, kind.Kind, kind.APIVersion)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
		list = append(list, object)
	}
	return json.NewEncoder(os.Stdout).Encode(list)
}
