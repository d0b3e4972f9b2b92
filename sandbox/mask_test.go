package sandbox

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wholeBuffer is what a masker comes to, looked for in the plainest way: every
// form at every place, and what overlaps made one.
func wholeBuffer(values []string, text string) (out string, count int) {
	var found []span
	for _, v := range values {
		for _, form := range plainForms(v) {
			found = append(found, everywhere(bytewise(text), form)...)
		}
		for _, form := range base64Forms(v) {
			found = append(found, everywhere(unwrapped(text), form)...)
		}
		found = append(found, everywhere(unescaped(text), urlForm(v))...)
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

// token is a part of a text that stands for one byte.
type token struct {
	span
	byte  byte
	joins bool // nothing stands before it that may not stand within a form
}

func bytewise(text string) (list []token) {
	for i := range len(text) {
		list = append(list, token{span{int64(i), int64(i + 1)}, text[i], true})
	}
	return list
}

func unwrapped(text string) (list []token) {
	end := 0
	for i := range len(text) {
		if text[i] != '\r' && text[i] != '\n' {
			list = append(list, token{span{int64(i), int64(i + 1)}, base64Byte(text[i]), slices.Contains([]string{"", "\n", "\r\n"}, text[end:i])})
			end = i + 1
		}
	}
	return list
}

func unescaped(text string) (list []token) {
	for i := 0; i < len(text); {
		n, b := 1, text[i]
		if hexed, err := hex.DecodeString(text[min(i+1, len(text)):min(i+3, len(text))]); b == '%' && err == nil && len(hexed) == 1 {
			n, b = 3, hexed[0]
		}
		list = append(list, token{span{int64(i), int64(i + n)}, urlByte(b), true})
		i += n
	}
	return list
}

// everywhere are the places of a form.
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

// inChunks masks text that comes in chunks of these sizes, again and again.
func inChunks(t *testing.T, m *masks, text string, sizes ...int) (string, int) {
	t.Helper()
	most := 0
	for _, f := range []*finder{m.plain, m.wrapped, m.escaped} {
		for _, n := range f.nodes {
			most = max(most, int(n.depth))
		}
	}
	stream, out := newMasker(m), ""
	for i := 0; text != ""; i++ {
		n := min(sizes[i%len(sizes)], len(text))
		chunk := []byte(text[:n])
		got := stream.write(chunk)
		out += string(got)
		for i := range chunk { // what was held must not be the caller's
			chunk[i] = '#'
		}
		text = text[n:]
		if len(stream.held) > 3*most || len(stream.found) > most {
			t.Errorf("holds %d bytes and %d spans for forms of %d", len(stream.held), len(stream.found), most)
		}
	}
	out += string(stream.flush())
	if rest := stream.flush(); len(rest) > 0 {
		t.Errorf("flushed twice: %q", rest)
	}
	return out, stream.count
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
		m := newMasks([]string{value})
		got, count := inChunks(t, m, test.text, len(test.text))
		// How many bits of the neighbours a character has is not the point.
		if strings.HasPrefix(name, "base64") {
			if !regexp.MustCompile(`^[A-Za-z0-9]{0,4}\*\*\*[A-Za-z0-9]{4,9}=*$`).MatchString(got) || count != 1 {
				t.Errorf("%s: %q, %d times", name, got, count)
			}
		} else if got != test.want || count != strings.Count(test.want, masked) {
			t.Errorf("%s: %q, %d times, want %q", name, got, count, test.want)
		}
	}
}

// What encoders make of a value leaves nothing of it, whatever its neighbours.
func TestEncodersAreMasked(t *testing.T) {
	for _, value := range []string{
		"12345678", "sk-proj-0123456789abcdefghijklmnop", "p@ss/w0rd+with=all&kinds?of#it!'()*",
		"-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\nshort\n    indented line\n-----END KEY-----", `{"json": "<&>\t\u00e9 é日"}`, strings.Repeat("Ab9/", 100),
	} {
		m := newMasks([]string{value})
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

// random makes texts that are full of secrets and of what looks like them.
func random(r *rand.Rand, values []string) string {
	var b strings.Builder
	for range r.IntN(12) {
		v := values[r.IntN(len(values))]
		forms := slices.Concat(plainForms(v), base64Forms(v), []string{url.QueryEscape(v), url.PathEscape(v), escapedAtRandom(r, v)})
		form := forms[r.IntN(len(forms))]
		switch r.IntN(6) {
		case 0:
			form = form[:r.IntN(len(form)+1)]
		case 1:
			form = form[r.IntN(len(form)):]
		case 2:
			form = strings.NewReplacer("+", "-", "/", "_").Replace(form)
		case 3, 4:
			for range r.IntN(4) {
				i := r.IntN(len(form) + 1)
				form = form[:i] + []string{"\n", "\r\n", "\r", "\n\n"}[r.IntN(4)] + form[i:]
			}
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

func randomValues(r *rand.Rand) (values []string) {
	for range 1 + r.IntN(3) {
		letters := []string{"a", "ab", "ab+/ ", "abcdef0123456789", "a\n", "é%1\"<"}[r.IntN(6)]
		v := make([]byte, minSecret+r.IntN(12))
		for i := range v {
			v[i] = letters[r.IntN(len(letters))]
		}
		values = append(values, strings.ToValidUTF8(string(v), "?"))
	}
	return values
}

// However it is cut, a stream comes out as the whole does, with no form of a
// secret in it.
func TestMaskerIsAsTheWhole(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		values := randomValues(r)
		checkMasker(t, values, random(r, values), r)
	}
}

func checkMasker(t *testing.T, values []string, text string, r *rand.Rand) {
	t.Helper()
	m := newMasks(values)
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
		for _, form := range slices.Concat(plainForms(v), base64Forms(v)) {
			// Of one that has a star, what stands around the mask may make another.
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
		if len(one) < minSecret || len(two) < minSecret || len(one)+len(two) > 200 || len(text) > 2000 {
			t.Skip("no secrets, or too slow for the plain way")
		}
		r := rand.New(rand.NewPCG(seed, 0))
		values := []string{one, two}
		checkMasker(t, values, text, r)
		checkMasker(t, values, random(r, values)+text, r)
	})
}

// A stream that never stops to look like a secret is not held for ever.
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
		stream, most, told := newMasker(newMasks([]string{value})), 0, 0
		for i := 0; i < len(text); i += 10 {
			told += len(stream.write([]byte(text[i:min(i+10, len(text))])))
			most = max(most, len(stream.held))
		}
		told += len(stream.flush())
		if most > 3*140 || cap(stream.held) > 8192 || cap(stream.out) > 8192 {
			t.Errorf("%s: held %d bytes (room for %d, %d)", name, most, cap(stream.held), cap(stream.out))
		}
		if slices.Contains([]string{"all secret", "all of base64", "escapes"}, name) && (stream.count != 1 || told > 10) {
			t.Errorf("%s: masked %d times, %d bytes told", name, stream.count, told)
		}
	}
}

// What cannot become a secret is told at once.
func TestMaskerHoldsNothingNeedlessly(t *testing.T) {
	const value = "sesame-open"
	for in, want := range map[string]string{
		"hello\n": "hello\n", "hello s": "hello ", "hello sesam": "hello ", "hello sesamo": "hello sesamo", value: masked, "x" + value + "s": "x" + masked, "100%\n": "100%\n", "%0a%7": "%0a",
	} {
		if got := newMasker(newMasks([]string{value})).write([]byte(in)); string(got) != want {
			t.Errorf("%q: tells %q, want %q", in, got, want)
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
			stream := newMasker(newMasks(test.values))
			b.SetBytes(int64(len(test.chunk)))
			b.ReportAllocs()
			for b.Loop() {
				stream.write(test.chunk)
			}
		})
	}
	for _, size := range []int{40, 3 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("new, %d bytes", size), func(b *testing.B) {
			value := strings.Repeat("Key: \"value\", of/this+that=;\n", size/20)[:size]
			b.ReportAllocs()
			for b.Loop() {
				newMasks([]string{value})
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
