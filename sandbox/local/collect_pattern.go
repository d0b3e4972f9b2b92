package local

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
)

// maxPatterns bounds Command.Collect: each is tried on each file.
const maxPatterns = 32

// pattern is one of Command.Collect, by its elements.
type pattern []string

const anyElements = "**"

func parsePatterns(list []string) (all []pattern, err error) {
	if len(list) > maxPatterns {
		return nil, sandbox.Invalid(`use patterns such as "out/**"`, "%d patterns to collect, over the limit of %d", len(list), maxPatterns)
	}
	for _, text := range list {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func parsePattern(text string) (pattern, error) {
	const hint = "write it relative to the workdir, such as out/*.log"
	switch {
	case len(text) > maxFilesPath:
		return nil, sandbox.Invalid("use a shorter one", "pattern %.100q… to collect is longer than %d bytes", text, maxFilesPath)
	case path.IsAbs(text) || strings.Contains(text, "\x00") || !utf8.ValidString(text):
		return nil, sandbox.Invalid(hint, "pattern %.512q to collect is absolute, has a NUL, or is not UTF-8", text)
	case slices.Contains(strings.Split(text, "/"), ".."):
		return nil, sandbox.Invalid(hint, "pattern %.512q to collect has a \"..\"", text)
	}
	p := pattern(strings.Split(path.Clean(text), "/"))
	if p[0] == "." {
		return nil, sandbox.Invalid(`to collect everything, write "**"`, "pattern %.512q names no file", text)
	}
	if len(p) > maxFileDepth {
		return nil, sandbox.Invalid("use fewer", "pattern %.512q has %d elements, over the limit of %d", text, len(p), maxFileDepth)
	}
	for _, element := range p {
		if _, err := path.Match(element, ""); err != nil || element != anyElements && strings.Contains(element, anyElements) {
			return nil, sandbox.Invalid(`as path.Match has it; "**" stands for whole elements`, "pattern %.512q to collect: %.100q is not a pattern", text, element)
		}
	}
	return p, nil
}

// matches reports whether a name fits, by its elements.
func (p pattern) matches(name []string) bool {
	fits := make([]bool, len(name)+1) // the pattern so far, and so many elements of the name
	fits[0] = true
	for _, element := range p {
		if element == anyElements {
			for i := range name {
				fits[i+1] = fits[i+1] || fits[i]
			}
			continue
		}
		for i := len(name); i > 0; i-- {
			fits[i] = fits[i-1] && matchesElement(element, name[i-1])
		}
		fits[0] = false
	}
	return fits[len(name)]
}

func matchesElement(element, name string) bool {
	ok, err := path.Match(element, name)
	return ok && err == nil
}

// leadsThrough reports whether the pattern is about what is below that name.
func (p pattern) leadsThrough(name []string) bool {
	return len(name) < len(p) && !slices.Contains(p[:len(name)], anyElements) && p[:len(name)].matches(name)
}

// search is where files that fit a pattern can be: in a directory without links on the way,
// at a path in or equal to it, and so many directories below that; -1 is any number.
type search struct {
	dir, path string
	depth     int
}

func (p pattern) search() search {
	literal := slices.IndexFunc(p, func(element string) bool { return strings.ContainsAny(element, `*?[\`) })
	if literal < 0 {
		whole := path.Join(p...)
		return search{path.Dir(whole), whole, 0}
	}
	dir := path.Clean(path.Join(p[:literal]...))
	if slices.Contains(p, anyElements) {
		return search{dir, dir, -1}
	}
	return search{dir, dir, len(p) - literal}
}
