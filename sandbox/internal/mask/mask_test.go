package mask

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// wholeBuffer is the expected result, computed in the simplest way: every
// form at every position, with overlaps merged.
func wholeBuffer(values []string, text string) (out string, count int) {
	var found []span
	for _, value := range values {
		for _, tokens := range [][]token{bytewise(text), unescaped(text), unslashed(text), unmarked(text)} {
			for _, form := range base64Forms(value) {
				found = append(found, everywhere(unwrapped(tokens), form)...)
			}
		}
		for _, v := range spokenForms(value) {
			for _, form := range plainForms(v) {
				found = append(found, everywhere(bytewise(text), form)...)
			}
			for _, form := range urlForms(v) {
				found = append(found, everywhere(folded(unescaped(text), urlByte), form)...)
			}
			for _, form := range slashForms(v) {
				found = append(found, everywhere(unslashed(text), form)...)
			}
			for _, form := range markForms(v) {
				found = append(found, everywhere(unmarked(text), form)...)
			}
			found = append(found, afterMarks(text, v)...)
		}
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	done := int64(0)
	for i := 0; i < len(found); count++ {
		all := found[i]
		for i++; i < len(found) && found[i].start < all.end; i++ {
			all.end = max(all.end, found[i].end)
		}
		out += text[done:all.start] + masked
		done = all.end
	}
	return out + text[done:], count
}

// token is a part of a text that decodes to one byte.
type token struct {
	span
	byte  byte
	joins bool // any byte of a form may precede it
}

func bytewise(text string) (list []token) {
	for i := range len(text) {
		list = append(list, token{span{int64(i), int64(i + 1)}, text[i], true})
	}
	return list
}

var lineEnds = regexp.MustCompile(`^(\r?\n[ \t]{0,32})?$`)

func unwrapped(text []token) (list []token) {
	between := ""
	for _, t := range text {
		if !t.joins {
			between = "broken"
		}
		blank := (t.byte == ' ' || t.byte == '\t') && t.end-t.start == 1
		if blank || t.byte == '\r' || t.byte == '\n' {
			between += string(t.byte)
			continue
		}
		t.byte, t.joins = base64Byte(t.byte), lineEnds.MatchString(between)
		list, between = append(list, t), ""
	}
	return list
}

func folded(text []token, fold func(byte) byte) []token {
	for i := range text {
		text[i].byte = fold(text[i].byte)
	}
	return text
}

var percents = regexp.MustCompile(`^%(?:25){0,31}([0-9a-fA-F]{2})`)

func unescaped(text string) (list []token) {
	for i := 0; i < len(text); {
		n, b := 1, text[i]
		if found := percents.FindStringSubmatch(text[i:]); found != nil {
			hexed, _ := hex.DecodeString(found[1])
			n, b = len(found[0]), hexed[0]
		}
		list = append(list, token{span{int64(i), int64(i + n)}, b, true})
		i += n
	}
	return list
}

var slashes = regexp.MustCompile(`^(\\{0,31})(\\u[dD][89abAB][0-9a-fA-F]{2}\\{1,32}u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\u\{[0-9a-fA-F]{1,6}\}|\\x[0-9a-fA-F]{1,2}|\\[0-7]{1,3}|\\[bfnrtaveE]|\\[\x00-\x2f\x3a-\x40\x5b\x5d-\x60\x7b-\x7f]|\\[^\\])`)

var backslashes = regexp.MustCompile(`\\+`)

// unslash decodes an escape.
func unslash(escape string) string {
	number := func(digits string, base int) int64 { n, _ := strconv.ParseInt(digits, base, 64); return n }
	switch c := escape[1]; {
	case c == '\n':
		return ""
	case c >= utf8.RuneSelf || len(escape) == 2 && strings.IndexByte("abfnrtveE", c) < 0 && strings.ToLower(escape) != strings.ToUpper(escape):
		return "none"
	case c == 'x':
		return string([]byte{byte(number(escape[2:], 16))})
	case '0' <= c && c <= '7':
		return string([]byte{byte(number(escape[1:], 8))})
	case c == 'U' || strings.HasPrefix(escape[1:], "u{"):
		return string(rune(number(strings.Trim(escape[2:], "{}"), 16)))
	case strings.IndexByte("aveE", c) >= 0:
		return map[byte]string{'a': "\a", 'v': "\v", 'e': "\x1b", 'E': "\x1b"}[c]
	case len(escape) > 2 || strings.IndexByte("bfnrt", c) >= 0: // Go's decoding is right, too
		value := ""
		if err := json.Unmarshal([]byte(`"`+backslashes.ReplaceAllString(escape, `\`)+`"`), &value); err != nil {
			panic(err)
		}
		return value
	}
	return escape[1:]
}

var entities = regexp.MustCompile(`^&[0-9A-Za-z#]{0,32};`)

func unmarked(text string) (list []token) {
	for i := 0; i < len(text); {
		escape, value := entities.FindString(text[i:]), text[i:i+1]
		if undone := html.UnescapeString(escape); undone != escape {
			value = undone
		} else {
			escape = value
		}
		for _, b := range []byte(value) {
			list = append(list, token{span{int64(i), int64(i + len(escape))}, b, true})
		}
		i += len(escape)
	}
	return list
}

// afterMarks are parts of a value after the mark in bash's messages.
func afterMarks(text, value string) (found []span) {
	for i := 0; ; {
		next := strings.Index(text[i:], tokenMark)
		if next < 0 {
			return found
		}
		i += next + len(tokenMark)
		n := 0
		for i+n < len(text) && strings.Contains(value, text[i:i+n+1]) {
			n++
		}
		if n >= MinSecret {
			found = append(found, span{int64(i), int64(i + n)})
		}
	}
}

func unslashed(text string) (list []token) {
	nothing := 0
	for i := 0; i < len(text); {
		escape, value := text[i:i+1], text[i:i+1]
		if found := slashes.FindStringSubmatch(text[i:]); found != nil {
			if escape, value = found[0], unslash(found[2]); value == "none" {
				escape, value = found[1]+`\`, ""
			}
		}
		if value == "" {
			nothing++
		}
		for _, b := range []byte(value) {
			list = append(list, token{span{int64(i), int64(i + len(escape))}, b, nothing < 2})
			nothing = 0
		}
		i += len(escape)
	}
	return list
}

// everywhere are all positions of a form.
func everywhere(text []token, form string) (found []span) {
	for i := range text {
		n := 0
		for n < len(form) && i+n < len(text) && text[i+n].byte == form[n] && (n == 0 || text[i+n].joins) {
			n++
		}
		if n == len(form) {
			found = append(found, span{text[i].start, text[i+n-1].end})
		}
	}
	return found
}

// inChunks masks text in chunks of these sizes, repeated.
func inChunks(t *testing.T, m *Masks, text string, sizes ...int) (string, int) {
	t.Helper()
	most := 0
	for _, f := range []*finder{m.plain, m.wrapped, m.escaped, m.slashed, m.marked} {
		for _, n := range f.nodes {
			most = max(most, int(n.depth))
		}
	}
	stream, out := NewStream(m), ""
	for i := 0; text != ""; i++ {
		n := min(sizes[i%len(sizes)], len(text))
		chunk := []byte(text[:n])
		got := stream.Feed(chunk)
		out += string(got)
		for i := range chunk { // held bytes must not alias the caller's
			chunk[i] = '#'
		}
		text = text[n:]
		if len(stream.held) > 50*most+12 || len(stream.found) > most {
			t.Errorf("holds %d bytes and %d spans for forms of %d", len(stream.held), len(stream.found), most)
		}
	}
	out += string(stream.Flush())
	if rest := stream.Flush(); len(rest) > 0 {
		t.Errorf("flushed twice: %q", rest)
	}
	return out, stream.Count
}

func TestMasks(t *testing.T) {
	const value = "s3cr3t+/= key?"
	b64 := func(prefix string) string {
		return base64.StdEncoding.EncodeToString([]byte(prefix + value + "suffix"))
	}
	for name, test := range map[string]struct{ text, want string }{
		"none":             {"s3cr3t+/= key", "s3cr3t+/= key"},
		"itself":           {"key=" + value + "!", "key=***!"},
		"twice":            {value + value + "\n", "******\n"},
		"in a query":       {"?q=" + url.QueryEscape(value), "?q=***"},
		"in a path":        {"/" + url.PathEscape(value) + "/", "/***/"},
		"lower-case hex":   {strings.ToLower(url.QueryEscape(value)), "***"},
		"any escapes":      {"%733cr3t%2b/=+%6Bey?", "***"},
		"half an escape":   {"100%7" + value + "%3", "100%7***%3"},
		"base64":           {b64(""), "***nVmZml4"},
		"base64, one over": {b64("a"), "YX***dWZmaXg="},
		"base64, two over": {b64("ab"), "YWJ***1ZmZpeA=="},
		"base64 for URLs":  {base64.URLEncoding.EncodeToString([]byte(value + "suffix")), "***nVmZml4"},
		"only a part":      {value[:13] + "\n", value[:13] + "\n"},
		"held at the end":  {"x" + value[:5], "x" + value[:5]},
	} {
		m := New([]string{value})
		got, count := inChunks(t, m, test.text, len(test.text))
		// The bits of neighboring bytes in a character do not matter here.
		if strings.HasPrefix(name, "base64") {
			if !regexp.MustCompile(`^[A-Za-z0-9]{0,4}\*\*\*[A-Za-z0-9]{4,9}=*$`).MatchString(got) || count != 1 {
				t.Errorf("%s: %q, %d times", name, got, count)
			}
		} else if got != test.want || count != strings.Count(test.want, masked) {
			t.Errorf("%s: %q, %d times, want %q", name, got, count, test.want)
		}
	}
}

// Forms written by real programs.
func TestOtherProgramsForms(t *testing.T) {
	for name, test := range map[string]struct{ value, text, want string }{
		"trimmed":              {" stray-blanks\t", "[stray-blanks]", "[***]"},
		"PHP":                  {"a/b/c/d/e", `{"k":"a\/b\/c\/d\/e"}`, `{"k":"***"}`},
		"Python":               {"käse-und-\U0001f511-brot", `"k\u00e4se-und-\ud83d\udd11-brot"`, `"***"`},
		".NET":                 {"it's+a+key", `"it\u0027s\u002Ba\u002Bkey"`, `"***"`},
		"printf %q":            {"it's a $key & more", `it\'s\ a\ \$key\ \&\ more`, "***"},
		"set -x of dash":       {"it's a key", `+ echo 'it'"'"'s a key'`, "+ echo '***'"},
		"set -x of bash":       {"it's a key", `+ echo 'it'\''s a key'`, "+ echo '***'"},
		"base64 in PHP's JSON": {"???>>>???>>>", `"Pz8\/Pj4+Pz8\/Pj4+"`, `"***"`},
		"base64 in a URL":      {"???>>>???>>>", "?k=Pz8%2FPj4%2BPz8%2FPj4%2B&", "?k=***&"},
		"base64 in YAML":       {"twelve bytes", "k: |\n    dHdl\n    bHZl\n    IGJ5\n    dGVz\n", "k: |\n    ***\n"},
		"wrapped, in JSON":     {"twelve bytes", `"dHdlbHZl\nIGJ5dGVz\n"`, `"***\n"`},
		"XML":                  {`<a&'b'"c">`, `<k v="&lt;a&amp;&apos;b&apos;&quot;c&quot;&gt;"/>`, `<k v="***"/>`},
		"HTML of Go":           {`<a&'b'"c">`, "&lt;a&amp;&#39;b&#39;&#34;c&#34;&gt;", "***"},
		"HTML of Python":       {`<a&'b'"c">`, "&lt;a&amp;&#x27;b&#x27;&quot;c&quot;&gt;", "***"},
		"HTML of PHP":          {`<a&'b'"c">`, "&lt;a&amp;&#039;b&#039;&quot;c&quot;&gt;", "***"},
		"CRLF":                 {"short\nlines\nof\nit", "short\r\nlines\r\nof\r\nit\r\n", "***\r\n"},
		"LF":                   {"short\r\nlines\r\nof\r\nit", "short\nlines\nof\nit\n", "***\n"},
	} {
		m := New([]string{test.value})
		for _, size := range []int{1, 3, 1000} {
			if got, _ := inChunks(t, m, test.text, size); got != test.want {
				t.Errorf("%s: %q, want %q", name, got, test.want)
			}
		}
	}
}

// Encoders leave nothing of a value, with any neighboring bytes.
func TestEncodersAreMasked(t *testing.T) {
	for _, value := range []string{
		"12345678", "sk-proj-0123456789abcdefghijklmnop", "p@ss/w0rd+with=all&kinds?of#it!'()*",
		"-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\nshort\n    indented line\n-----END KEY-----", `{"json": "<&>\t\u00e9 é日"}`, strings.Repeat("Ab9/", 100),
	} {
		m := New([]string{value})
		for n := range 7 {
			before, after := strings.Repeat("b", n), strings.Repeat("a", n%4)
			all := []byte(before + value + after)
			quoted, err := json.Marshal(string(all))
			if err != nil {
				t.Fatal(err)
			}
			std, wrapped := base64.StdEncoding.EncodeToString(all), ""
			for rest := std; rest != ""; rest = rest[min(len(rest), 19):] {
				wrapped += rest[:min(len(rest), 19)] + "\n"
			}
			for name, text := range map[string]string{
				"itself": string(all), "JSON": string(quoted), "query": url.QueryEscape(string(all)), "path": url.PathEscape(string(all)),
				"base64": std, "base64 for URLs": base64.RawURLEncoding.EncodeToString(all), "wrapped": wrapped, "wrapped, CRLF": strings.ReplaceAll(wrapped, "\n", "\r\n"),
			} {
				got, count := inChunks(t, m, text, 7, 1, 30)
				if count != 1 || len(strings.ReplaceAll(got, masked, "")) > 2*n+12 {
					t.Errorf("%s of %.20q, %d before it: %q, %d times", name, value, n, got, count)
				}
			}
		}
	}
}

// random makes texts that are full of secrets and of similar text.
func random(r *rand.Rand, values []string) string {
	var b strings.Builder
	for range r.IntN(12) {
		v := values[r.IntN(len(values))]
		forms := slices.Concat(plainForms(v), base64Forms(v), spokenForms(v), nestedForms(v), []string{url.QueryEscape(v), url.PathEscape(v), escapedAtRandom(r, v), slashedAtRandom(r, v), markedAtRandom(r, v), tokenMark + v})
		form := forms[r.IntN(len(forms))]
		switch r.IntN(8) {
		case 0:
			form = form[:r.IntN(len(form)+1)]
		case 1:
			form = form[r.IntN(len(form)):]
		case 2:
			form = strings.NewReplacer("+", "-", "/", "_").Replace(form)
		case 3, 4:
			for range r.IntN(4) {
				i := r.IntN(len(form) + 1)
				form = form[:i] + []string{"\n", "\r\n", "\r", "\n\n", "\n  ", `\n`, "%0a\t", strings.Repeat(" ", 33)}[r.IntN(8)] + form[i:]
			}
		case 5:
			form = []string{escapedAtRandom(r, form), slashedAtRandom(r, form), markedAtRandom(r, form), tokenMark + form[len(form)/3:]}[r.IntN(4)]
		}
		b.WriteString(form)
		b.WriteString([]string{"", "", "a", "\n", " = "}[r.IntN(5)])
	}
	return b.String()
}

func escapedAtRandom(r *rand.Rand, v string) (s string) {
	for _, b := range []byte(v) {
		s += []string{string([]byte{b}), fmt.Sprintf("%%%02x", b), fmt.Sprintf("%%%02X", b), "%"}[min(r.IntN(20)/6, 3)]
	}
	return s
}

func markedAtRandom(r *rand.Rand, v string) (s string) {
	for _, c := range v {
		s += []string{string(c), fmt.Sprintf("&#%d;", c), fmt.Sprintf("&#x%X;", c), html.EscapeString(string(c)), "&", "&am;"}[min(r.IntN(40)/9, 3+r.IntN(3))]
	}
	return s
}

func slashedAtRandom(r *rand.Rand, v string) (s string) {
	for _, c := range v {
		escape := fmt.Sprintf(`\u%04x`, c)
		if c > 0xffff {
			high, low := utf16.EncodeRune(c)
			escape = fmt.Sprintf(`\u%04x\u%04X`, high, low)
		}
		quoted, _ := json.Marshal(string(c))
		s += []string{string(c), escape, string(quoted[1 : len(quoted)-1]), octal(c), fmt.Sprintf(`\U%08x`, c), fmt.Sprintf(`\u{%x}`, c), `\` + string(c), string(c) + "\\\n", "\\\n\\\n", `\`, `\ud83d`, `\x4`}[min(r.IntN(80)/9, 3+r.IntN(9))]
	}
	return s
}

func octal(c rune) (s string) {
	for _, b := range []byte(string(c)) {
		s += fmt.Sprintf(`\%03o`, b)
	}
	return s
}

func randomValues(r *rand.Rand) (values []string) {
	for range 1 + r.IntN(3) {
		letters := []string{"a", "ab", "ab+/ ", "abcdef0123456789", "a\n", "é%1\"<", "\\u0041nf/", " \t", "\U0001f511é'&"}[r.IntN(9)]
		v := make([]byte, MinSecret+r.IntN(12))
		for i := range v {
			v[i] = letters[r.IntN(len(letters))]
		}
		valid := strings.ToValidUTF8(string(v), "?")
		values = append(values, valid+strings.Repeat("?", max(0, MinSecret-len(valid))))
	}
	return values
}

// With any chunks, the output of a stream is that of the whole text, without any form
// of a secret.
func TestMaskerIsAsTheWhole(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		values := randomValues(r)
		checkMasker(t, values, random(r, values), r)
	}
}

func checkMasker(t *testing.T, values []string, text string, r *rand.Rand) {
	t.Helper()
	m := New(values)
	want, count := wholeBuffer(values, text)
	sizes := make([]int, 1+r.IntN(5))
	for i := range sizes {
		sizes[i] = 1 + r.IntN(1+r.IntN(40))
	}
	for _, sizes := range [][]int{{len(text) + 1}, {1}, sizes} {
		got, n := inChunks(t, m, text, sizes...)
		if got != want || n != count {
			t.Fatalf("values %q, text %q, chunks %v:\n got %q, %d times\nwant %q, %d", values, text, sizes, got, n, want, count)
		}
	}
	for _, v := range values {
		for _, form := range slices.Concat(plainForms(v), base64Forms(v), slashForms(v)) {
			// If it has a star, the text around the mask may form another.
			if !strings.Contains(form, "*") && strings.Contains(want, form) {
				t.Fatalf("values %q, text %q: %q is left in %q", values, text, form, want)
			}
		}
	}
}

func FuzzMasker(f *testing.F) {
	f.Add("s3cr3t-value", "12345678", "a s3cr3t-value and MTIzND\nU2Nzg=", uint64(1))
	f.Add("aaaaaaaa", "abababab", strings.Repeat("ab", 40)+strings.Repeat("a", 40), uint64(2))
	f.Add("line one\nline two\n", "p@ss word/+", "p%40ss%20word%2f%2B p@ss+word%2F%2B line one", uint64(3))
	f.Add("\xff\xfe<>\"\\'\x01\x02", "*******a", "\xff\xfe<>\"\\'\x01\x02", uint64(4))
	f.Fuzz(func(t *testing.T, one, two, text string, seed uint64) {
		if len(one) < MinSecret || len(two) < MinSecret || len(one)+len(two) > 200 || len(text) > 2000 {
			t.Skip("no secrets, or too slow for the plain way")
		}
		r := rand.New(rand.NewPCG(seed, 0))
		values := []string{one, two}
		checkMasker(t, values, text, r)
		checkMasker(t, values, random(r, values)+text, r)
	})
}

// A stream that always looks like a secret is not held for ever.
func TestMaskerHoldsLittle(t *testing.T) {
	value := strings.Repeat("a", 100)
	b64 := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 30000)))
	for name, text := range map[string]string{
		"all secret":      strings.Repeat("a", 100000),
		"almost":          strings.Repeat(value[:99]+"b", 1000),
		"all of base64":   b64,
		"line ends":       strings.Repeat("YWFh\r\n", 1000) + strings.Repeat("\r\n", 10000),
		"after a secret":  value + strings.Repeat("\n", 10000),
		"CR after base64": strings.Repeat("Y\r", 10000),
		"escapes":         strings.Repeat("%61", 10000),
		"percent signs":   strings.Repeat("%", 10000) + strings.Repeat("%6", 10000),
	} {
		stream, most, told := NewStream(New([]string{value})), 0, 0
		for i := 0; i < len(text); i += 10 {
			told += len(stream.Feed([]byte(text[i:min(i+10, len(text))])))
			most = max(most, len(stream.held))
		}
		told += len(stream.Flush())
		if most > 3*140 || cap(stream.held) > 8192 || cap(stream.out) > 8192 {
			t.Errorf("%s: held %d bytes (room for %d, %d)", name, most, cap(stream.held), cap(stream.out))
		}
		if slices.Contains([]string{"all secret", "all of base64", "escapes"}, name) && (stream.Count != 1 || told > 10) {
			t.Errorf("%s: masked %d times, %d bytes returned", name, stream.Count, told)
		}
	}
}

// Bytes that cannot become a secret are passed on at once.
func TestMaskerHoldsNothingNeedlessly(t *testing.T) {
	const value = "sesame-open"
	for in, want := range map[string]string{
		"hello\n": "hello\n", "hello s": "hello ", "hello sesam": "hello ", "hello sesamo": "hello sesamo", value: masked, "x" + value + "s": "x" + masked, "100%\n": "100%\n", "%0a%7": "%0a",
	} {
		if got := NewStream(New([]string{value})).Feed([]byte(in)); string(got) != want {
			t.Errorf("%q: returned %q, want %q", in, got, want)
		}
	}
}

func BenchmarkMasker(b *testing.B) {
	const key = "sk-proj-0123456789abcdefghijklmnopqrstuv"
	source := bytes.Repeat([]byte("func (o *output) write(s stream, p []byte) { // keeps what it can: was := o.spool.total\n"), 500)[:32<<10]
	r := rand.New(rand.NewPCG(1, 2))
	binary := make([]byte, 32<<10)
	for i := range binary {
		binary[i] = byte(r.Uint32())
	}
	encoded := []byte(base64.StdEncoding.EncodeToString(binary))[:32<<10]
	for _, test := range []struct {
		name   string
		values []string
		chunk  []byte
	}{
		{"source", []string{key}, source},
		{"base64", []string{key}, encoded},
		{"binary", []string{key}, binary},
		{"full of secrets", []string{key}, bytes.Repeat([]byte("key: "+key+"\n"), 1000)[:32<<10]},
		{"almost secrets", []string{key}, bytes.Repeat([]byte(key[:39]), 1000)[:32<<10]},
		{"ten secrets", tenKeys(), source},
		{"PEM of 3 KiB", []string{strings.Repeat("MIIEpAIBAAKCAQEAxyz0123456789abcdefghijklmnopqrstuvwxyz\n", 54)}, encoded},
	} {
		b.Run(test.name, func(b *testing.B) {
			stream := NewStream(New(test.values))
			b.SetBytes(int64(len(test.chunk)))
			b.ReportAllocs()
			for b.Loop() {
				stream.Feed(test.chunk)
			}
		})
	}
	for _, size := range []int{40, 3 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("new, %d bytes", size), func(b *testing.B) {
			value := strings.Repeat("Key: \"value\", of/this+that=;\n", size/20)[:size]
			b.ReportAllocs()
			for b.Loop() {
				New([]string{value})
			}
		})
	}
}

func tenKeys() (keys []string) {
	for i := range 10 {
		keys = append(keys, fmt.Sprintf("%c%x", 'a'+i, strings.Repeat(fmt.Sprint(i), 20)))
	}
	return keys
}
