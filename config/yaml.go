package config

import (
	"belljar/internal/lazyregexp"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// isScalar refuses what YAML reads as another type than the key's.
func (r *reader) isScalar(n *yaml.Node, k key, name string) bool {
	want := map[string]string{tagString: "a string", tagInt: "a number", tagBool: "true or false"}[k.kind.tags[0]]
	if !r.is(n, yaml.ScalarNode, name, want) {
		return false
	}
	if slices.Contains(k.kind.tags, n.ShortTag()) {
		return true
	}
	hint := "write it in quotes"
	if k.def != "" {
		hint = "write one such as " + k.def
	}
	r.report(name, n, wrong(hint, "must be %s, not %s", want, describe(n)))
	return false
}

func (r *reader) isString(n *yaml.Node, name string) bool {
	if !r.is(n, yaml.ScalarNode, name, "a string") {
		return false
	}
	if n.ShortTag() != tagString {
		r.report(name, n, wrong("write it in quotes", "must be a string, not %s", describe(n)))
		return false
	}
	return true
}

// is refuses a node of another kind, and an empty one. Aliases are already
// refused.
func (r *reader) is(n *yaml.Node, want yaml.Kind, name, wanted string) bool {
	switch {
	case n.ShortTag() == "!!null":
		r.report(name, n, wrong("give it a value, or remove the key", "has no value"))
	case n.Kind == want:
		return true
	case n.Kind != yaml.AliasNode:
		r.report(name, n, wrong("`belljar config schema` describes it", "must be %s, not %s", wanted, describe(n)))
	}
	return false
}

// maxItems bounds lists and profiles, since rules are compared in pairs.
const maxItems = 100

func (r *reader) isShort(n *yaml.Node, items int, name string) bool {
	if items > maxItems {
		r.report(name, n, wrong(fmt.Sprintf("at most %d", maxItems), "%d items are too many", items))
	}
	return items <= maxItems
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	names := map[string]string{tagString: "a string", tagInt: "a number", tagFloat: "a number", tagBool: "true or false", "!!timestamp": "a date"}
	if name, ok := names[n.ShortTag()]; ok {
		return name
	}
	return "a value with a tag"
}

// refuseAliases looks everywhere: a few nested aliases can expand to gigabytes.
func (r *reader) refuseAliases(n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		r.report("", n, wrong("write the value out", "YAML aliases are not supported"))
	}
	for _, child := range n.Content {
		r.refuseAliases(child)
	}
}

// yamlLine is how yaml reports the line: its syntax errors have no field for it.
var yamlLine = lazyregexp.New(`^yaml: line (\d+): `)

// parse returns the root of the one document in data, nil without one.
func parse(data []byte) (*yaml.Node, *Problem) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	err := decoder.Decode(&first)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if err = decoder.Decode(&second); err == nil {
			return nil, &Problem{Line: second.Line, Message: "a second YAML document", Hint: "keep one document in the file"}
		}
		if errors.Is(err, io.EOF) {
			return first.Content[0], nil
		}
	}
	return nil, syntaxProblem(err)
}

func syntaxProblem(err error) *Problem {
	p := wrong("check the indentation, colons and quotes there", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Message = strings.TrimPrefix(err.Error(), m[0])
	}
	if strings.Contains(p.Message, "anchor '") { // the message names the anchor
		p.Message = "a YAML alias or anchor, which is not supported"
	}
	return p
}

// field is one key of a mapping with its value.
type field struct {
	name, path string // "memory", "limits.memory"
	key, value *yaml.Node
}

var plainName = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)

var nearlyPlain = lazyregexp.New(`^[A-Za-z0-9_.<-]{1,64}$`)

// fields are the keys of the mapping called name, each once.
func (r *reader) fields(n *yaml.Node, name string) []field {
	if !r.is(n, yaml.MappingNode, name, "a mapping") {
		return nil
	}
	var fields []field
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f := field{name: n.Content[i].Value, key: n.Content[i], value: n.Content[i+1]}
		f.path = join(name, f.name)
		if !plainName.MatchString(f.name) {
			f.path = join(name, quoteKey(f.name))
		}
		if first, isDuplicate := lines[f.name]; isDuplicate {
			r.report(f.path, f.key, wrong("remove one of them", "duplicate key, first on line %d", first))
			continue
		}
		lines[f.name] = f.key.Line
		fields = append(fields, f)
	}
	return fields
}

// quoteKey is a key, quoted unless it is a plain name: in a file that is not a
// configuration, such as /etc/shadow, a whole line is the key, and is not shown.
func quoteKey(name string) string {
	if !nearlyPlain.MatchString(name) {
		name = "…"
	}
	return strconv.Quote(name)
}

func join(group, name string) string {
	if group == "" {
		return name
	}
	return group + "." + name
}
