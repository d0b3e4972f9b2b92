package config

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// origin is where a value was written.
type origin struct {
	from  string // "default", "file", "env" or "flag"
	place string // "sandbox.yaml", "BELLJAR_TIMEOUT" or "--timeout"
	line  int    // in the file

	untrusted bool // the file may be anyone's
}

func (o origin) String() string {
	return strings.TrimSuffix(o.from+" "+position(o.place, o.line), " ")
}

// value is a value that knows its origin. Viper merges values and never sees
// what is in them, so it cannot convert them either.
type value struct {
	origin
	key  string // as written: "profiles.build.limits.memory"
	text string
	data any // nil after a Problem
}

// layer is the values of one origin, by the names of their keys. Viper takes
// dotted names for paths.
type layer = map[string]any

// reader reads values from one origin.
type reader struct {
	origin
	dir      string // base of relative paths
	problems Problems
}

func (r *reader) at(n *yaml.Node) origin {
	o := r.origin
	if o.from == "file" {
		o.line = n.Line
	}
	return o
}

func (r *reader) report(key string, n *yaml.Node, p *Problem) {
	o := r.at(n)
	p.Place, p.Line, p.Key = o.place, o.line, key
	if r.from != "flag" && p.discreet != "" {
		p.Message = p.discreet
	}
	p.discreet = ""
	r.problems = append(r.problems, p)
}

// text reads a value of a variable or a flag. A list is written as in
// YAML.
func (r *reader) text(k key, text string) value {
	if k.kind.list == nil {
		return r.scalar(k, k.name, &yaml.Node{Value: text})
	}
	n, problem := parse([]byte(text))
	if problem != nil || n == nil {
		r.report(k.name, &yaml.Node{}, wrong("write "+k.def, "%s is not a list", said(text)))
		return value{}
	}
	r.refuseAliases(n)
	return r.value(k, k.name, n)
}

// value reads the YAML value called name.
func (r *reader) value(k key, name string, n *yaml.Node) value {
	if k.kind.list == nil {
		if !r.isScalar(n, k, name) {
			return value{origin: r.at(n), key: name}
		}
		return r.scalar(k, name, n)
	}
	v := value{origin: r.at(n), key: name}
	if r.is(n, yaml.SequenceNode, name, "a list") && r.isShort(n, len(n.Content), name) {
		v.data = k.kind.list(r, name, n.Content)
		v.text = flow(v.data)
	}
	return v
}

func (r *reader) scalar(k key, name string, n *yaml.Node) value {
	data, problem := k.kind.scalar(n.Value, r.dir)
	if problem != nil {
		r.report(name, n, problem)
		data = nil
	}
	return value{origin: r.at(n), key: name, text: n.Value, data: data}
}

// flow writes a list as YAML in one line, in its JSON subset.
func flow(data any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		return "[…]" // rules that JSON cannot represent: a Problem already
	}
	return strings.TrimSuffix(b.String(), "\n")
}
