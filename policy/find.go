package policy

import "strings"

// findTests are find's tests and options, with their number of arguments
// (findutils 4.9, busybox 1.36, BSD).
var findTests = map[string]int{}

func init() {
	for _, name := range strings.Fields(`! ( ) , -a -and -o -or -not -true -false -depth -d -mount -xdev -noleaf -daystart -follow
		-ignore_readdir_race -noignore_readdir_race -warn -nowarn -empty -readable -writable -executable -nouser -nogroup
		-print -print0 -prune -quit -ls -help --help -version --version -H -L -P -E -X -s -x`) {
		findTests[name] = 0
	}
	for _, name := range strings.Fields(`-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size
		-mtime -ctime -atime -mmin -cmin -amin -newer -anewer -cnewer -newermt -newerct -newerat -newermm -perm -user -group -uid -gid -links -inum
		-samefile -fstype -used -maxdepth -mindepth -printf -regextype -context -D`) {
		findTests[name] = 1
	}
	programs["find"] = find
}

// find runs commands with -exec and similar actions, and deletes and writes files.
func find(c *call) {
	f := &findReader{call: c, words: c.words[1:]}
	for f.at < len(f.words) {
		f.word(f.words[f.at])
	}
}

// findReader reads find's expression word by word.
type findReader struct {
	*call
	words []word
	at    int
	roots []word // the paths, which come first
	began bool   // the expression has begun
	lacks bool   // a word may be missing, since a pattern may match nothing
}

func (f *findReader) word(w word) {
	f.at++
	switch {
	case !w.static && !f.began && (!w.mayBeOption() || harmlessGlob(w)):
		f.roots = append(f.roots, w)
	case !w.static:
		f.unknown("a word that find may read as -exec", w)
	case !f.began && !strings.HasPrefix(w.text, "-") && w.text != "!" && w.text != "(":
		f.roots = append(f.roots, w)
	case strings.HasPrefix(w.text, "-O") && isDigits(w.text[2:]):
	default:
		f.began = f.began || w.text != "-H" && w.text != "-L" && w.text != "-P" && w.text != "-D"
		f.primary(w)
	}
}

func (f *findReader) primary(w word) {
	switch w.text {
	case "-exec", "-execdir", "-ok", "-okdir":
		if w.text == "-execdir" || w.text == "-okdir" {
			f.in = unknownDirs
		}
		f.at += f.findExec(f.words[f.at-1:], f.roots)
	case "-delete":
		f.findDelete(f.roots, w)
	case "-fprint", "-fprint0", "-fls", "-fprintf":
		if f.at < len(f.words) {
			f.write(f.words[f.at], 0)
		}
		if f.at++; w.text == "-fprintf" {
			f.at++
		}
	case "-files0-from":
		f.at++
		f.unknown("which files find reads from a file", w)
	default:
		n, known := findTests[w.text]
		if !known {
			f.unknown("find's "+quoteShort(w.text), w)
		}
		for ; n > 0; n-- {
			if f.at < len(f.words) {
				f.value(f.words[f.at])
			}
			f.at++
		}
	}
}

// value judges the argument of a test. Where `-name *.c` expands to several words,
// find refuses the second. Where it expands to none (nullglob), -name takes the
// next word, and the argument after that becomes an action: `-newer -delete`.
func (f *findReader) value(w word) {
	switch {
	case (w.splits || w.globs) && !harmlessGlob(w):
		f.unknown("a word that may become several (quote it)", w)
	case f.lacks && w.mayBeOption() && !harmlessGlob(w):
		f.unknown("a word that find reads as an action if the pattern before it matches nothing (quote it)", w)
	}
	f.lacks = f.lacks || w.globs
}

// harmlessGlob matches patterns such as *.go that cannot expand to an action of
// find: none contains a dot or a slash.
func harmlessGlob(w word) bool { return w.globs && !w.splits && w.dotted }

// findExec judges the command after -exec, and returns how many words it has.
// {} is replaced by names that start with one of the paths, or with "./".
func (c *call) findExec(words []word, roots []word) int {
	end := 1
	for ; end < len(words); end++ {
		w := words[end]
		switch {
		case w.is(";") || w.is("+") && words[end-1].is("{}"):
		case w.is("+"): // where busybox ends the command, if it has one {}
			c.unknown("whether find's command ends at a plus", w)
			continue
		case w.splits || w.globs || !w.static && !w.path && !w.number && (w.text == "" || w.text == ";" || w.text == "+"):
			c.unknown("where find's command ends", w)
			continue
		default:
			continue
		}
		break
	}
	if end == len(words) {
		c.unknown("a command of find's without an end", words[0])
	}
	prefix := "."
	for _, root := range roots {
		if root.mayBeOption() || root.text == "" {
			prefix = ""
		}
	}
	c.run(substitute(words[1:end], "{}", prefix))
	return end
}

// findDelete judges -delete, which deletes anything below the paths.
func (c *call) findDelete(roots []word, at word) {
	if len(roots) == 0 {
		roots = []word{{text: ".", static: true, start: at.start, end: at.end, inner: -1}}
	}
	for _, root := range roots {
		if root.static {
			root.text = strings.TrimSuffix(root.text, "/") + "/x"
		}
		c.write(root, 0)
	}
}
