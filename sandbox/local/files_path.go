package local

import (
	"path"
	"strings"
	"unicode/utf8"

	"belljar/internal/target"
	"belljar/sandbox"
)

// maxFilesPath bounds a path, as PATH_MAX.
const maxFilesPath = 4096

// filesPath is a path in a workspace: a directory, and a name in it. The name is "." for the
// content of that directory.
type filesPath struct{ dir, name string }

// whole is the path relative to the workspace.
func (p filesPath) whole() string { return path.Join(p.dir, p.name) }

// workspacePath refuses what is not below the workspace, before anything runs.
func workspacePath(workspace, given string) (p filesPath, err error) {
	const hint = "name a file or directory below the workspace, such as src/main.c"
	switch {
	case len(given) > maxFilesPath:
		return p, sandbox.Invalid("use a shorter one", "path %.100q… is longer than %d bytes", given, maxFilesPath)
	case strings.Contains(given, "\x00") || !utf8.ValidString(given):
		return p, sandbox.Invalid("copy the directory that it is in", "path %.512q has a NUL, or is not UTF-8", given)
	case path.IsAbs(given) && !target.Within(workspace, path.Clean(given)):
		return p, sandbox.Invalid(hint, "path %.512q is outside the workspace %s", given, workspace)
	}
	for element := range strings.SplitSeq(given, "/") {
		if element == ".." {
			return p, sandbox.Invalid(hint, "path %.512q has a \"..\"", given)
		}
	}
	relative := path.Clean(given)
	if path.IsAbs(given) {
		relative = path.Clean(strings.TrimPrefix(strings.TrimPrefix(relative, strings.TrimSuffix(workspace, "/")), "/"))
	}
	if relative == "." || strings.HasSuffix(given, "/.") {
		return filesPath{relative, "."}, nil
	}
	return filesPath{path.Dir(relative), path.Base(relative)}, nil
}
