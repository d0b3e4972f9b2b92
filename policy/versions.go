package policy

import (
	"slices"
	"strings"
)

// versionWords are the words with which a program only prints its version or its
// options, if nothing follows them. They differ between
// programs: `ruby -v x` and `perl -v x` do more. Excluded are programs that
// run code of the working directory before they look at the word: yarn, pnpm,
// mvn, gradle, pytest, tox, flake8, and those that are a chooser of the version which a file
// there names, by a path: cargo and rustc (rust-toolchain.toml), dotnet (global.json).
var versionWords = map[string][]string{}

const versionRows = `
	python python2 python3: --version -V --help -h
	node nodejs: --version -v --help -h
	npm npx: --version -v
	deno bun: --version
	ruby perl: --version -v
	php: --version -v
	lua: -v
	java: --version -version
	javac: --version -version
	gcc g++ cc c++ clang clang++ ld as gdb: --version
	make gmake: --version -v
	cmake ctest ninja: --version
	pip pip3: --version -V
	uv ruff black: --version
	tsc: --version -v
	docker podman: --version -v
	kubectl: version@--client
	gh: --version
	bash: --version
	curl: --version -V --help -h
	wget: --version -V --help
	tar zip: --version
	ssh: -V
	rsync: --version
	openssl: version version@-a
	psql mysql: --version
	redis-cli: --version
	vim: --version
	ffmpeg ffprobe: -version
	gpg: --version
	tmux: -V
	systemctl: --version
	apt apt-get apt-cache dpkg rpm: --version
`

func init() {
	for _, line := range strings.Split(strings.TrimSpace(versionRows), "\n") {
		names, words, _ := strings.Cut(line, ":")
		for _, name := range strings.Fields(names) {
			versionWords[name] = strings.Fields(words)
		}
	}
}

// versionCommands lists all of them for a rule's Commands.
func versionCommands() (commands []string) {
	for name, words := range versionWords {
		for _, word := range words {
			commands = append(commands, name+" "+strings.ReplaceAll(word, "@", " "))
		}
	}
	slices.Sort(commands)
	return commands
}

// onlyPrintsVersion reports whether the words only do that. If more words
// follow, they may still be run.
func (c *call) onlyPrintsVersion() bool {
	phrases := versionWords[c.words[0].text]
	if len(phrases) == 0 || len(c.words) == 1 {
		return false
	}
	var words []string
	for _, w := range c.words[1:min(len(c.words), 5)] { // no phrase is longer
		words = append(words, w.text)
		if !w.static {
			words = append(words, "") // which is in no phrase
		}
	}
	begins := func(phrase string) bool { return strings.HasPrefix(phrase+"@", words[0]+"@") }
	switch {
	case slices.Contains(phrases, strings.Join(words, "@")):
		return true
	case slices.ContainsFunc(phrases, begins):
		c.opaque("may do more than print its version", c.words[1], 1)
	}
	return false
}
