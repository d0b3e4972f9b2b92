package policy

import (
	"slices"
	"strings"
)

// shellWords are the words of set, or of a shell's own command line, as every shell
// reads them: each o and O in a word takes a word of its own, wherever in the
// word it is. What is not listed here is unclear, never ignored.
type shellWords struct {
	given   string // the letters after a dash
	rest    []word // the words after the options
	unclear *word  // a word that may do more, or that shells read differently
}

// setLetters change only what the script itself does. -a and -k are not among them: they
// turn assignments, or any word with an equals sign, into the environment.
const setLetters = "euxvfCETh"

// shLetters are those that a shell's command line has in addition. As any word of
// them that is a long option to bash is harmless, their long names may have one dash.
const shLetters = setLetters + "clsinmpbBt"

var (
	setOptions   = []string{"errexit", "nounset", "xtrace", "verbose", "noglob", "noclobber", "pipefail", "errtrace", "functrace"}
	shoptOptions = []string{"nullglob", "failglob", "globstar", "dotglob", "nocaseglob", "nocasematch"}
	longOptions  = []string{"--login", "--norc", "--noprofile", "--posix", "--verbose", "--version", "--help"}
)

// readShellWords reads the words after set, or after a shell's name.
func readShellWords(words []word, isSet bool) (r shellWords) {
	letters := shLetters
	if isSet {
		letters = setLetters
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case !w.static && (w.mayBeOption() || strings.HasPrefix(w.text, "+")):
			r.unclear = &words[i]
			return r
		case w.is("--") || w.is("-"):
			r.rest = words[i+1:]
			return r
		case !w.static || w.text == "" || w.text[0] != '-' && w.text[0] != '+':
			r.rest = words[i:]
			return r
		case !isSet && slices.ContainsFunc(longOptions, w.is):
			continue
		}
		for _, letter := range []byte(w.text[1:]) {
			var names []string
			switch {
			case letter == 'o':
				names = setOptions
			case letter == 'O' && !isSet:
				names = shoptOptions
			case strings.IndexByte(letters, letter) < 0, w.text[0] == '+' && strings.IndexByte(setLetters, letter) < 0:
				r.unclear = &words[i]
				return r
			case w.text[0] == '-':
				r.given += string(letter)
			}
			if names == nil || i+1 >= len(words) { // without a name it prints
				continue
			}
			if i++; !slices.ContainsFunc(names, words[i].is) {
				r.unclear = &words[i]
				return r
			}
		}
	}
	return r
}

func (r shellWords) has(letters string) bool { return strings.ContainsAny(r.given, letters) }
