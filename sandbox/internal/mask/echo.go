package mask

import (
	"belljar/internal/lazyregexp"
	"strings"
)

// spokenForms are a value and its forms after a program interprets its
// backslashes as escapes: echo, printf and read, in dash, busybox and bash.
// They support different escapes.
func spokenForms(value string) []string {
	forms := []string{value}
	if !strings.Contains(value, `\`) || len(value) > maxNested {
		return forms
	}
	words := strings.Join(strings.Fields(value), " ")
	for i := range 2 * len(spoken) {
		value, escapes := []string{value, words}[i%2], spoken[i/2]
		said := escapes.Get().ReplaceAllStringFunc(value, func(e string) string {
			if e[1] == 'c' { // the output ends
				return ""
			}
			if e[1] == '0' && len(e) == 5 { // the 0 is one more digit
				e = e[:1] + e[2:]
			}
			_, said := decodeBackslash(nil, []byte(e), true)
			return string(said)
		})
		forms = append(forms, said)
	}
	for _, form := range forms[:len(forms):len(forms)] {
		forms = append(forms, unread.Replace(form))
	}
	return longForms(forms)
}

// unread is the output of read without -r.
var unread = strings.NewReplacer(`\\`, `\`, "\\\n", "", `\`, "")

var spoken = []*lazyregexp.Regexp{
	lazyregexp.New(`(?s)\\(?:c.*|0[0-7]{0,3}|[abfnrtv\\])`),                                                                        // echo of dash
	lazyregexp.New(`(?s)\\(?:c.*|[0-7]{1,3}|[abfnrtv\\])`),                                                                         // printf of dash
	lazyregexp.New(`(?s)\\(?:c.*|0[0-7]{0,3}|x[0-9a-fA-F]{1,2}|[abefnrtv\\])`),                                                     // echo -e
	lazyregexp.New(`(?s)\\(?:c.*|[0-7]{1,3}|x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[abeEfnrtv\\"'?])`),                  // printf
	lazyregexp.New(`(?s)\\(?:c.*|0[0-7]{0,3}|[1-7][0-7]{0,2}|x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[abeEfnrtv\\"'?])`), // printf %b
}

// arithmeticForms are bash's messages about a value that is no number: its beginning,
// up to the part that bash reads as one.
func arithmeticForms(value string) (forms []string) {
	for _, at := range numbers.Get().FindAllStringIndex(value, 32) {
		for _, why := range []string{"value too great for base", "invalid number", "invalid integer constant", "invalid arithmetic base"} {
			if at[1] >= MinSecret {
				forms = append(forms, value[:at[1]]+": "+why)
			}
		}
	}
	return forms
}

// numbers are what bash reads as numbers.
var numbers = lazyregexp.New(`[0-9][0-9A-Za-z@_#]*`)

// tokenMark precedes a part of a value in bash's messages.
const tokenMark = `(error token is "`

// tokens looks for parts of values after that mark, at any position.
type tokens struct {
	values []string
	marked int   // bytes of the mark so far
	begins []at  // positions in the values that match all text since the mark
	length int64 // of that text
}

// at is a position in one of the values.
type at struct{ value, offset int }

// quiet reports that there is no mark.
func (t *tokens) quiet() bool { return t.marked == 0 }

func (t *tokens) scan(b byte, offset int64, m *Stream) {
	if t.marked < len(tokenMark) {
		switch b {
		case tokenMark[t.marked]:
			t.marked++
		case tokenMark[0]: // which occurs only once in it
			t.marked = 1
		default:
			t.marked = 0
		}
		return
	}
	if t.length == 0 {
		t.all()
	}
	n := 0
	for _, p := range t.begins {
		if v := t.values[p.value]; p.offset+int(t.length) < len(v) && v[p.offset+int(t.length)] == b {
			t.begins[n] = p
			n++
		}
	}
	t.begins = t.begins[:n]
	if t.length++; n == 0 {
		t.marked, t.length = 0, 0
		if b == tokenMark[0] {
			t.marked = 1
		}
		return
	}
	if t.length >= MinSecret {
		m.match(offset+1-t.length, offset+1)
	}
}

// all are all places.
func (t *tokens) all() {
	t.begins = t.begins[:0]
	for i, v := range t.values {
		for offset := range len(v) {
			t.begins = append(t.begins, at{i, offset})
		}
	}
}

// open is where a possible part of a value began.
func (t *tokens) open(end int64) int64 { return end - t.length }
