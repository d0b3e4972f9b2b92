package policy

import (
	"slices"
	"strings"
	"sync"
)

// grammar is how a program reads its options, and what they do. It is written
// as a list of specifications, one per option:
//
//	n,quiet        names: of one letter with one dash, longer ones with two
//	k,key:         takes a value, in the same word or the next
//	color?         may have a value, in the same word only
//	o,output:!w    !w writes the file the value names
//	pre:!x         !x runs the value with more words after it
//	o,output:!p    !p writes it, or runs what follows a bar or an exclamation mark
//	to-command:!X  !X runs the value as a shell does
//	ext-diff!o     !o runs what cannot be judged
//	i,in-place?!W  !W writes files that are not named here
//	D,chdir:!C     !C starts the program's command in another directory,
//	R,chroot:!R    !R in another root, which has programs of its own
//	@numbers       -NUMBER is an option
//	@ordered       the first operand ends the options
//	@harmless      no option does anything, so a word that may be one is none
//	@single        long names have one dash or two, and letters do not cluster
//
// An option that is not listed is unknown, and so is an abbreviation.
// It is parsed at the first use: a command needs few grammars, and parsing all of
// them takes longer than the rest of a start.
type grammar struct {
	spec     string
	once     sync.Once
	short    []*option // indexed by their letters
	long     map[string]*option
	numbers  bool
	ordered  bool
	single   bool
	harmless bool
}

type option struct {
	name   string
	value  byte // ':', '?' or 0
	effect byte // 'w', 'p', 'x', 'X', 'o', 'W', 'C', 'R' or 0
}

func newGrammar(spec string) *grammar { return &grammar{spec: spec} }

func (g *grammar) read() {
	g.short, g.long = make([]*option, 128), map[string]*option{}
	for _, field := range strings.Fields(g.spec) {
		switch field {
		case "@numbers":
			g.numbers = true
			continue
		case "@ordered":
			g.ordered = true
			continue
		case "@harmless":
			g.harmless = true
			continue
		case "@single":
			g.single = true
			continue
		}
		names, effect, _ := strings.Cut(field, "!")
		o := &option{}
		if effect != "" {
			o.effect = effect[0]
		}
		if last := names[len(names)-1]; last == ':' || last == '?' && len(names) > 1 {
			o.value, names = last, names[:len(names)-1]
		}
		for _, name := range strings.Split(names, ",") {
			o.name = name
			if len(name) == 1 && !g.single {
				g.short[name[0]] = o
			} else {
				g.long[name] = o
			}
		}
	}
}

// parsed is a call's words, read with a grammar.
type parsed struct {
	operands []word
	ended    bool // by --
	options  []given
}

type given struct {
	*option
	value word
	has   bool
}

// add adds the last operands. They are not copied: some rows read the rest of their words
// again and again.
func (p *parsed) add(operands []word) {
	if len(p.operands) == 0 {
		p.operands = slices.Clip(operands)
		return
	}
	p.operands = append(p.operands, operands...)
}

func (p *parsed) has(name string) bool {
	for _, o := range p.options {
		if o.name == name {
			return true
		}
	}
	return false
}

// parse reads the words after the program's name, and records what the options
// do. A word that may or may not be an option is unknown.
func (c *call) parse(words []word, g *grammar) *parsed {
	g.once.Do(g.read)
	p := &parsed{}
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w.is("--"):
			p.add(words[i+1:])
			p.ended = true
			return p
		case !w.mayBeOption():
			if g.ordered {
				p.add(words[i:])
				return p
			}
			p.operands = append(p.operands, w)
		case !w.static && !knownOption(w):
			if !g.harmless {
				c.unknown("a word that may be an option (write -- or ./ before it)", w)
			}
			p.operands = append(p.operands, w)
		case g.numbers && isDigits(w.text[1:]):
		default:
			i += c.option(p, g, w, words[i+1:])
		}
	}
	return p
}

// knownOption matches a word such as --include="$x" whose option is known.
func knownOption(w word) bool {
	return !w.splits && !w.globs && strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "=")
}

// option reads one word of options, and returns how many of the words after it are
// values.
func (c *call) option(p *parsed, g *grammar, w word, after []word) (taken int) {
	if strings.HasPrefix(w.text, "--") || g.single {
		name, value, has := strings.Cut(strings.TrimLeft(w.text, "-"), "=")
		o := g.find(name)
		if o == nil || has && o.value == 0 {
			c.unknown("option "+quoteShort(w.text), w)
			return 0
		}
		if g.long[name] == nil && o.effect == 0 {
			c.unknown("abbreviation "+quoteShort(w.text), w) // it may abbreviate another option in another version
		}
		if has {
			c.give(p, o, part(w, value), true)
			return 0
		}
		return c.separate(p, o, w, after)
	}
	for i := 1; i < len(w.text); i++ {
		var o *option
		if letter := w.text[i]; letter < 128 {
			o = g.short[letter]
		}
		if o == nil {
			c.unknown("option "+quoteShort(w.text), w)
			return 0
		}
		if o.value != 0 && i+1 < len(w.text) {
			c.give(p, o, part(w, w.text[i+1:]), true)
			return 0
		}
		if o.value == ':' {
			return c.separate(p, o, w, after)
		}
		c.give(p, o, w, false)
	}
	return 0
}

// separate takes the next word as the value, if the option needs one. A value
// that looks like an option might be one in other versions.
func (c *call) separate(p *parsed, o *option, w word, after []word) int {
	if o.value != ':' {
		c.give(p, o, w, false)
		return 0
	}
	if len(after) == 0 || after[0].splits || after[0].globs {
		c.unknown("the value of option "+quoteShort(w.text), w)
		return min(1, len(after))
	}
	value := after[0]
	if value.static && value.mayBeOption() && !isDigits(value.text[1:]) && value.text[1] != ' ' {
		c.unknown("whether "+quoteShort(value.text)+" is a value or an option", value)
	}
	c.give(p, o, value, true)
	return 1
}

// find finds an option by its name or an abbreviation. If several options begin
// so, one with an effect counts: which of them exist depends on the version.
func (g *grammar) find(name string) *option {
	if o := g.long[name]; o != nil || name == "" || g.single {
		return o
	}
	var found *option
	for full, o := range g.long {
		if strings.HasPrefix(full, name) && (found == nil || found.effect == 0 || o.effect != 0 && o.name < found.name) {
			found = o
		}
	}
	return found
}

// part is the end of a word, as a word of its own.
func part(w word, text string) word {
	if w.inner >= 0 {
		w.inner += len(w.text) - len(text)
	}
	w.text = text
	return w
}

// withWords returns the command with unknown words added, so that `env`
// and `xargs` run the first of them.
func withWords(command word) word {
	command.text += ` "$@"`
	command.inner = -1
	return command
}

// give records an option and what it does.
func (c *call) give(p *parsed, o *option, value word, has bool) {
	p.options = append(p.options, given{o, value, has})
	switch o.effect {
	case 'w':
		c.write(value, 0)
	case 'p':
		if strings.HasPrefix(value.text, "|") || strings.HasPrefix(value.text, "!") {
			c.shell(part(value, value.text[1:]), false)
		} else {
			c.write(value, 0)
		}
	case 'x':
		c.shell(withWords(value), false)
	case 'X':
		c.shell(value, false)
	case 'o':
		c.opaque("runs other programs by option "+quoteShort("-"+o.name), value, 0)
	case 'W':
		c.writeSomewhere("writes by option "+quoteShort("-"+o.name), value, 0)
	case 'C':
		c.in = unknownDirs
	case 'R':
		c.opaque("runs in another root by option "+quoteShort("-"+o.name), value, 0)
		c.goElsewhere()
	}
}
