package policy

import (
	"slices"
	"strings"
)

// readCommands are the commands of build tools and package managers that only print,
// with the options that do not change that. Their other
// commands and options run, write or contact a server. Files that they keep for
// themselves (go's build cache, npm's log) are allowed, as git's index is.
var readCommands = map[string]map[string]*grammar{}

// Sources: the help of each command of go 1.26, npm 10, pip 23 and apt 2.6.
// go list -mod=mod writes go.mod, go env -w its settings, go vet
// -vettool and -toolexec run programs, npm --prefix and --userconfig read
// another's settings, pip --log writes, pip --python runs, and apt -o and -c set
// what runs.
func init() {
	for _, row := range []struct{ program, commands, spec string }{
		{"go", "list", "@single C: tags: e deps test find f: json? m retracted v"},
		{"go", "vet", "@single C: tags: json? v n x c: appends? asmdecl? assign? atomic? bools? buildtag? composites? copylocks? errorsas? loopclosure? lostcancel? nilfunc? printf? shift? stdmethods? structtag? tests? unmarshal? unreachable? unsafeptr? unusedresult?"},
		{"go", "env", "@single json changed"},
		{"go", "version", "@single m v json"},
		{"go", "doc", "@single all c cmd ex short src u"},
		{"go", "help", "@single"},
		{"npm", "ls|list|ll|la", "a,all json l,long p,parseable g,global depth: omit: include: link unicode production prod dev package-lock-only"},
		{"npm", "explain|why", "json"}, {"npm", "root|prefix", "g,global"}, {"npm", "config get|config list|config ls|pkg get", "json l,long g,global"},
		{"pip", "list", "l,local user e,editable format: not-required exclude-editable include-editable exclude: path: pre v,verbose q,quiet disable-pip-version-check no-color no-python-version-warning isolated"},
		{"pip", "freeze", "l,local user all exclude-editable exclude: path: v,verbose q,quiet disable-pip-version-check no-color isolated"},
		{"pip", "show", "f,files v,verbose q,quiet disable-pip-version-check no-color isolated"},
		{"pip", "check|config list|config get", "v,verbose q,quiet disable-pip-version-check no-color isolated"},
		{"apt", "list", "a,all-versions installed upgradable upgradeable manual-installed v,verbose"},
		{"apt", "show|search|policy|depends|rdepends", "a,all-versions n,names-only f,full installed"},
		{"apt-cache", "show|search|policy|depends|rdepends|showpkg|madison|stats|pkgnames", "a,all-versions n,names-only f,full installed recurse no-all-versions"},
	} {
		g := newGrammar(row.spec)
		if readCommands[row.program] == nil {
			readCommands[row.program] = map[string]*grammar{}
		}
		for _, command := range strings.Split(row.commands, "|") {
			readCommands[row.program][command] = g
		}
	}
	readCommands["pip3"] = readCommands["pip"]
	for program, commands := range readCommands {
		other := programs[program]
		if other == nil {
			other = func(c *call) { c.opaque("may do more than print", c.words[0], 1) }
		}
		programs[program] = func(c *call) {
			if !c.readCommand(commands) {
				other(c)
			}
		}
	}
}

// readCommand judges the words of a command that only prints, and returns false for
// others.
func (c *call) readCommand(commands map[string]*grammar) bool {
	for n := 1; n <= 2 && n < len(c.words) && c.words[n].static; n++ {
		if g := commands[join(c.words[1:n+1]).text]; g != nil {
			before := len(c.uses)
			if c.parse(c.words[n+1:], g); len(c.uses) == before {
				return true
			}
			c.uses = c.uses[:before]
		}
	}
	return false
}

// readCommandNames lists all of them for a rule's Commands.
func readCommandNames() (names []string) {
	for program, commands := range readCommands {
		for command := range commands {
			names = append(names, program+" "+command)
		}
	}
	slices.Sort(names)
	return names
}
