package config

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"belljar/sandbox"
)

// grantKeys are what a rule can restrict, each read as the key of that name.
var grantKeys = []key{
	{name: "timeout", kind: duration(second), def: "1m", doc: "Time limit for the script. If several rules set a limit, the lowest counts; this applies to all keys of grant."},
	{name: "idle_timeout", kind: duration(second), def: "30s", doc: "Time limit without output."},
	{name: "limits.memory", kind: memoryLimit, def: "256MiB", doc: "Limit on memory and swap together."},
	{name: "limits.cpus", kind: cpusLimit, def: "0.5", doc: "Limit on CPUs, such as 0.5."},
	{name: "limits.pids", kind: pidsLimit, def: "32", doc: "Limit on processes and threads."},
	{name: "limits.output", kind: outputLimit, def: "1MiB", doc: "How much output is kept."},
	{name: "limits.tmp", kind: tmpLimit, def: "16MiB", doc: "Size limit for each of /tmp, the working directory and /dev/shm."},
	{name: "limits.files", kind: filesLimit, def: "64", doc: "Limit on open files per process."},
	{name: "network", kind: enum("none"), def: "none", doc: "none removes the network."},
	{name: "mounts", kind: enum(string(sandbox.ReadOnlyMounts), string(sandbox.NoMounts)), def: "ro", doc: "ro makes mounts read-only, none removes them."},
}

func grantSchema() object {
	schema := objectOf(grantKeys)
	withoutDefaults(schema)
	schema["description"] = "Limits for every script that uses the rule."
	return schema
}

// grant reads a rule's restrictions.
func (r *reader) grant(n *yaml.Node, name string) (g sandbox.Grant) {
	set := layer{}
	for _, f := range r.fields(n, name) {
		if !isGroup(grantKeys, f.name) {
			r.granted(f.name, f, set)
			continue
		}
		for _, inner := range r.fields(f.value, f.path) {
			r.granted(f.name+"."+inner.name, inner, set)
		}
	}
	for name, field := range map[string]*time.Duration{"timeout": &g.Timeout, "idle_timeout": &g.IdleTimeout} {
		take(set, name, field)
	}
	l := &g.Limits
	for name, field := range map[string]*int64{
		"limits.memory": &l.Memory, "limits.pids": &l.Pids, "limits.output": &l.Output, "limits.tmp": &l.Tmp, "limits.files": &l.Files,
	} {
		take(set, name, field)
	}
	take(set, "limits.cpus", &l.CPUs)
	take(set, "network", &g.Network)
	take(set, "mounts", (*string)(&g.Mounts))
	return g
}

func (r *reader) granted(name string, f field, into layer) {
	if k, isKey := findKey(grantKeys, name); isKey && !strings.Contains(f.name, ".") {
		into[name] = r.value(k, f.path, f.value)
	} else {
		r.report(f.path, f.key, misspelt(grantKeys, name))
	}
}

// take stores the value of that name, if it is set and valid.
func take[T any](from layer, name string, into *T) {
	if v, isSet := from[name].(value); isSet {
		if data, ok := v.data.(T); ok {
			*into = data
		}
	}
}
