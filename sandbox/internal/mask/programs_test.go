package mask

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// showing are ways in which programs show $V, mostly by accident.
var showing = map[string][]string{
	"bash %q":        {"bash", "-c", `printf '%q\n' "$V"`},
	"bash %q in C":   {"bash", "-c", `LC_ALL=C; printf '%q\n' "$V"`},
	"bash set -x":    {"bash", "-c", `set -x; : "$V" --key="$V" "x $V"`},
	"bash set":       {"bash", "-c", `set; declare -p V; export -p; echo "${V@Q}" "${V@A}"`},
	"bash echo":      {"bash", "-c", `set -f; echo $V; echo -e "$V"; printf '%b\n' "$V"; printf "${V//%/%%}\n"; while read x || [ "$x" ]; do echo "$x"; done <<<"$V"`},
	"bash sums":      {"bash", "-c", `(let "1 + $V"); echo $((V)); (echo $(($V))); [[ $V -eq 1 ]]; test "$V" -eq 1; "$V"; cd "$V"; kill "$V"; . "$V"`},
	"dash set -x":    {"dash", "-c", `set -x; : "$V" --key="$V" "x $V"`},
	"dash set":       {"dash", "-c", "set; export -p"},
	"dash echo":      {"dash", "-c", `set -f; echo "$V"; echo $V; printf '%b\n' "$V"; echo "$V" | while read x; do printf '%s\n' "$x"; done`},
	"dash sums":      {"dash", "-c", `(echo $(($V))); (echo $((V))); "$V"; cd "$V"; . "./$V"`},
	"busybox set -x": {"busybox", "sh", "-c", `set -x; : "$V" --key="$V"`},
	"busybox set":    {"busybox", "sh", "-c", "set; export -p"},
	"busybox echo":   {"busybox", "sh", "-c", `set -f; echo "$V"; echo -e "$V"; echo $V; printf '%b\n' "$V"; (echo $(($V))); "$V"; cd "$V"; ls "$V"`},
	"sed l":          {"sh", "-c", `printf '%s\n' "$V" "a longer line with it: $V" | sed -n l; printf '%s\n' "$V" | busybox sed -n l`},
	"cat":            {"sh", "-c", `printf '%s\n' "$V" "k: $V" >"$D/file"; cat -A "$D/file"; cat -v "$D/file"; busybox cat -v "$D/file"; busybox cat -A "$D/file"`},
	"no such file":   {"sh", "-c", `ls "$V"; cat "$V"; LC_ALL=C ls "$V"; LC_ALL=C cat "$V"; grep x "$V"; git -C "$V" status; chmod "$V" x; date -d "$V"; sleep "$V"; test "$V" -lt 3; tar xf "$V"; awk "$V"`},
	"files":          {"sh", "-c", `cd "$D/files"; : >"$V"; : >"x $V"; ls; ls -b; ls -Q; ls --quoting-style=c; ls --quoting-style=shell-escape-always; LC_ALL=C ls -b; stat *; find . -ls; busybox ls; git init -q .; git status; git status --porcelain; git add -A; git commit -q -m "$V"; git ls-files; git log; du -a`},
	"python3":        {"python3", "-c", "import os, json, html, urllib.parse, shlex, pprint\nv = os.environ['V']\nfor s in [repr(v), ascii(v), repr(v.encode()), json.dumps(v), json.dumps(json.dumps({'k': v})), json.dumps(v, ensure_ascii=False), html.escape(v), urllib.parse.quote(v), urllib.parse.quote(urllib.parse.quote(v)), urllib.parse.quote_plus(v), shlex.quote(v), v.encode('unicode_escape').decode(), v.encode('ascii', 'xmlcharrefreplace').decode(), v.encode('ascii', 'backslashreplace').decode(), urllib.parse.quote(json.dumps(v))]: print(s)\nint(v)"},
	"perl":           {"perl", "-MData::Dumper", "-e", `$Data::Dumper::Useqq = 1; print Dumper($ENV{V}); $Data::Dumper::Useqq = 0; print Dumper($ENV{V}); use JSON::PP; print encode_json([$ENV{V}]), JSON::PP->new->ascii->encode([$ENV{V}]); print quotemeta $ENV{V}; die $ENV{V}`},
	"node":           {"node", "-e", `const v = process.env.V; console.log([v], {v}, JSON.stringify(v), JSON.stringify(JSON.stringify(v)), encodeURIComponent(v), encodeURIComponent(encodeURIComponent(v)), encodeURI(v)); throw new Error(v)`},
	"jq":             {"jq", "-n", `env.V, (env.V | tojson, tojson | tojson), (env.V | @html, @uri, @sh, @csv "\([.])", @json, @text, @base64)`},
	"gawk":           {"gawk", `BEGIN { printf "%s\n", ENVIRON["V"]; exit ENVIRON["V"] + 1 }`},
	"xargs":          {"sh", "-c", `printf '%s\n' "$V" | xargs -0 -t true; printf '%s\n' "$V" | xargs -d '\n' -t true`},
}

// encoded are encodings by libraries.
func encoded(t *testing.T, v string) string {
	t.Helper()
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write([]string{"k", v}); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	if err := xml.EscapeText(&b, []byte(v)); err != nil {
		t.Fatal(err)
	}
	once, _ := json.Marshal(v)
	twice, _ := json.Marshal(string(once))
	var entities string
	for _, r := range v {
		entities += fmt.Sprintf("&#%d;", r)
	}
	for _, s := range []string{
		strconv.Quote(v), strconv.QuoteToASCII(v), fmt.Sprintf("%+q %#v", v, []byte("")), string(once), string(twice), html.EscapeString(v), entities,
		url.QueryEscape(v), url.QueryEscape(url.QueryEscape(v)), url.PathEscape(url.PathEscape(v)), "'" + strings.ReplaceAll(v, "'", "''") + "'", url.QueryEscape(string(once)), html.EscapeString(string(once)),
	} {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// awkward are the characters between the words of a value.
var awkward = []string{
	`'`, `"`, `\`, `\n`, `\t`, `\\`, `\101`, `\0101`, `\x41`, `\c`, `\u00e4`, `\"`, `''`, `""`, `'"`, "``", "`", "\n", "\t", "  ", "\x1b[1m", "\x01", "\x7f",
	"ä", "é", "\U0001f511", "日", "€", "$", "$(", "&", "&amp;", "<", ">", "%", "%41", "%%", ";", "(", ")", "*", "?", "[", "#", "~", "+", "=", "=41", "!", ":", "|", "^", "^A", "M-", ",", "{", "@",
}

const alphanumeric = "abcdefghijklmnopqrstuvwxyz0123456789"

// awkwardValue has words that occur in no other text, which every encoding leaves
// unchanged: none may be left.
func awkwardValue(r *rand.Rand) (value string, words []string) {
	word := func() string {
		w := make([]byte, 9)
		for i := range w {
			w[i] = alphanumeric[r.IntN(len(alphanumeric))]
		}
		words = append(words, string(w))
		return string(w)
	}
	for range 2 + r.IntN(4) {
		value += word()
		for range 1 + r.IntN(3) {
			value += awkward[r.IntN(len(awkward))]
		}
	}
	if r.IntN(2) == 0 {
		value += word()
	}
	if r.IntN(4) == 0 {
		value = awkward[r.IntN(len(awkward))] + value
	}
	return value, words
}

// The output of real programs for values that every encoding changes contains none of
// them, in any chunks.
func TestProgramsAreMasked(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		value, words := awkwardValue(r)
		m := New([]string{value})
		check := func(name, shown string) {
			got, _ := inChunks(t, m, shown, 1+r.IntN(50), 1+r.IntN(5000))
			for _, word := range words {
				if strings.Contains(got, word) {
					t.Errorf("%s of %q shows %s:\n%s", name, value, word, around(got, word))
					break
				}
			}
		}
		check("libraries", encoded(t, value))
		for name, argv := range showing {
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Logf("NOT TESTED: %s: %v", name, err)
				continue
			}
			check(name, shown(t, value, argv))
		}
	}
}

// shown is a program's output for a value.
func shown(t *testing.T, value string, argv []string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "V="+value, "D="+dir, "LC_ALL=C.UTF-8", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x")
	out, _ := cmd.CombinedOutput() // many fail, with a message about it
	return string(out)
}

// around is the line with a word in it.
func around(text, word string) string {
	i := strings.Index(text, word)
	return text[max(0, i-100):min(len(text), i+100)]
}
