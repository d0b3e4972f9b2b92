package config

import (
	"encoding/json"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

type object = map[string]any

// Schema is the JSON Schema (2020-12) of sandbox.yaml.
func Schema() []byte {
	schema := objectOf(keys)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "belljar's sandbox.yaml"
	profile := objectOf(commandKeys())
	withoutDefaults(profile)
	schema["properties"].(object)[profilesKey] = object{
		"type":                 "object",
		"description":          "Profiles by name. Each overrides keys of the top level.",
		"propertyNames":        object{"pattern": profileName.String(), "not": object{"const": "default"}},
		"additionalProperties": profile,
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("config: the table of keys is not JSON: " + err.Error())
	}
	return append(text, '\n')
}

// objectOf nests the keys' schemas in those of their groups.
func objectOf(table []key) object {
	root := newObject()
	for _, k := range table {
		at, name := root, k.name
		for group, rest, nested := strings.Cut(name, "."); nested; group, rest, nested = strings.Cut(name, ".") {
			properties := at["properties"].(object)
			if properties[group] == nil {
				properties[group] = newObject()
			}
			at, name = properties[group].(object), rest
		}
		at["properties"].(object)[name] = k.schema()
	}
	return root
}

func newObject() object {
	return object{"type": "object", "additionalProperties": false, "properties": object{}}
}

func (k key) schema() object {
	schema := maps.Clone(k.kind.schema)
	schema["description"] = k.doc
	var def any
	if err := yaml.Unmarshal([]byte(k.def), &def); err == nil && def != nil {
		schema["default"] = def
	} else {
		schema["default"] = ""
	}
	return schema
}

// withoutDefaults is for profiles: there, the default is the top level's value.
func withoutDefaults(schema object) {
	delete(schema, "default")
	properties, _ := schema["properties"].(object)
	for _, p := range properties {
		withoutDefaults(p.(object))
	}
}
