package policy

import (
	"path"
	"slices"
	"strings"
)

// Some files decide what programs run: the repository's, and those of a home, which
// belljar's commands have in /tmp. A command that may write there can run anything at the
// next git command or in the next shell (CVE-2026-26268), so a glob must name them.

// guarded are the names, at any depth: HOME may be elsewhere, too. They are
// compared without case, as some file systems do.
var guarded = strings.Fields(`.git .gitmodules .gitconfig
	.profile .bash_profile .bash_login .bash_logout .bashrc .kshrc .mkshrc .shrc .zshenv .zprofile .zshrc .zlogin .zlogout
	.curlrc .wgetrc .lesskey .less .popt .rpmmacros .rpmrc .gdbearlyinit .ssh .pip`)

// guardedBelow are names below others: the settings and the modules that python
// loads at each start, and the toolchains that a go.mod can choose.
var guardedBelow = map[string][]string{
	".config":    strings.Fields("git bat go pip rpm popt gdb lesskey curlrc wgetrc fish"),
	".local":     {"lib"},
	"golang.org": {"toolchain@*"},
}

// isGuarded reports whether the path's component at i is one of them. HEAD makes a directory
// a repository whose settings git uses: nothing else has a file of that name.
func isGuarded(file []string, i int) bool {
	name := strings.ToLower(file[i])
	if slices.Contains(guarded, name) || strings.HasSuffix(name, ".git") || file[i] == "HEAD" && i == len(file)-1 {
		return true
	}
	return i > 0 && matchAny(guardedBelow[strings.ToLower(file[i-1])], name)
}

// hasGuarded reports whether some component of the path is guarded.
func hasGuarded(file string) bool { return guardedIn(file) != "" }

// guardedIn is the first such component, with the one before it if both are needed, or "".
func guardedIn(file string) string {
	parts := strings.Split(path.Clean(file), "/")
	for i := range parts {
		switch {
		case !isGuarded(parts, i):
		case isGuarded(parts[i:i+1], 0):
			return parts[i]
		default:
			return path.Join(parts[i-1], parts[i])
		}
	}
	return ""
}

// copiesGuarded sees `cp -r x/.git/. .` and `mv x .config`, which write guarded files that
// no operand names. Through a link any file behind it can be written.
func (c *call) copiesGuarded(operands []word, program string, trees bool) {
	for _, w := range operands {
		name := path.Base(path.Clean(w.text))
		if below := guardedBelow[strings.ToLower(name)]; trees && below != nil {
			name = path.Join(name, strings.Trim(below[0], "*"))
		}
		if program == "ln" || !w.static {
			name = path.Join(path.Dir(path.Clean(w.text)), name)
		}
		if found := guardedIn(name); found != "" {
			c.write(word{text: found, static: true, inner: -1, start: w.start, end: w.end}, 1)
		}
	}
}

// showWritten names a file that is written.
func showWritten(file word) string {
	if file.static && hasGuarded(file.text) {
		return file.show() + ", which can decide what programs run"
	}
	return file.show()
}

// covers compares a relative glob with the files below the directory that the
// script starts in. A guarded directory never matches.
func (j *judge) covers(glob, file string) bool {
	if start := j.start.dirs[0]; !path.IsAbs(glob) && path.IsAbs(file) {
		if hasGuarded(start + "/x") {
			return false
		}
		if !Within(start, file) {
			return false
		}
		file = strings.TrimPrefix(strings.TrimPrefix(file, start), "/")
	}
	return path.IsAbs(glob) == path.IsAbs(file) && matchPath(strings.Split(path.Clean(glob), "/"), strings.Split(file, "/"), 0)
}

// matchPath compares component by component, from the file's at on. "**" stands for any
// number of them, but a glob must name a guarded one itself.
func matchPath(glob, file []string, at int) bool {
	if len(glob) == 0 {
		return at == len(file)
	}
	if glob[0] == "**" {
		for i := at; i <= len(file); i++ {
			if matchPath(glob[1:], file, i) {
				return true
			}
			if i < len(file) && (isGuarded(file, i) || file[i] == "..") {
				return false
			}
		}
		return false
	}
	if at == len(file) || glob[0] != file[at] && (isGuarded(file, at) || file[at] == "..") {
		return false
	}
	ok, err := path.Match(glob[0], file[at])
	return ok && err == nil && matchPath(glob[1:], file, at+1)
}
