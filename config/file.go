package config

import (
	"belljar/internal/lazyregexp"
	"strings"

	"belljar/sandbox"
)

// contents is what one file sets.
type contents struct {
	top      layer
	profiles map[string]layer
}

// file reads a whole file.
func (r *reader) file(data []byte) contents {
	c := contents{layer{}, map[string]layer{}}
	root, problem := parse(data)
	if problem != nil {
		problem.Place = r.place
		r.problems = append(r.problems, problem)
		return c
	}
	if root == nil {
		return c
	}
	r.refuseAliases(root)
	for _, f := range r.fields(root, "") {
		if f.name == profilesKey {
			r.profiles(f, c.profiles)
			continue
		}
		r.field(keys, f.name, f, c.top)
	}
	return c
}

// profileName leaves out what viper would take for a path, or fold.
var profileName = lazyregexp.New(`^[a-z0-9][a-z0-9_-]*$`)

func (r *reader) profiles(f field, into map[string]layer) {
	all := r.fields(f.value, profilesKey)
	if !r.isShort(f.value, len(all), profilesKey) {
		return
	}
	for _, p := range all {
		switch {
		case p.name == sandbox.DefaultProfile:
			r.report(p.path, p.key, wrong("set its keys at the top level", "the default profile is the top level"))
		case !profileName.MatchString(p.name):
			r.report(p.path, p.key, wrong("use a-z, 0-9, - and _", "this is not a valid profile name"))
		default:
			into[p.name] = layer{}
			for _, inner := range r.fields(p.value, p.path) {
				r.field(commandKeys(), inner.name, inner, into[p.name])
			}
		}
	}
}

// field reads one key of the table, or the group of that name.
func (r *reader) field(table []key, name string, f field, into layer) {
	k, isKey := findKey(table, name)
	switch {
	case strings.Contains(f.name, "."):
		r.report(f.path, f.key, wrong("write the group, and below it the key", "a key cannot contain a dot"))
	case isKey:
		into[name] = r.value(k, f.path, f.value)
	case isGroup(table, name):
		for _, inner := range r.fields(f.value, f.path) {
			r.field(table, name+"."+inner.name, inner, into)
		}
	default:
		r.report(f.path, f.key, unknown(table, name))
	}
}
