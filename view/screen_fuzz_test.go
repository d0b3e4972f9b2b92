package view

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"belljar/sandbox"
)

// pieces are what terminal input is made of, and what it should not be made of. A %d
// is any number.
var pieces = []string{
	"plain text", "a line\r\n", "\r\n", "\n", "\r", "\t", "\b", "\x0e", "\x0f", "\x00", "\x7f",
	"\x1b", "\x1b[", "\x1b[?", "\x1b]", "\x1bP", "\x1b\\", "\a", "\x18", ";", ":", "m", "H",
	"äöü", "日本語", "👍🏽", "e\u0301", "\u0301", "\u200b\u202e", "\u009b1m", "\xff", "\xe2\x82", "\U00040000",
	"\x1b[%dA", "\x1b[%dB", "\x1b[%dC", "\x1b[%dD", "\x1b[%dE", "\x1b[%dF", "\x1b[%dG", "\x1b[%d;%dH",
	"\x1b[%dJ", "\x1b[%dK", "\x1b[%dL", "\x1b[%dM", "\x1b[%dP", "\x1b[%d@", "\x1b[%dX", "\x1b[%dS", "\x1b[%dT",
	"\x1b[%dI", "\x1b[%dZ", "\x1b[%db", "\x1b[%dd", "\x1b[%dg", "\x1b[%dm", "\x1b[38;5;%dm", "\x1b[48;2;%d;%d;%dm",
	"\x1b[4h", "\x1b[4l", "\x1b[%dh", "\x1b[?%dh", "\x1b[?%dl", "\x1b[?6h", "\x1b[?7l", "\x1b[?7h",
	"\x1b[?1049h", "\x1b[?1049l", "\x1b[?1047l", "\x1b[?1048h", "\x1b[?47h", "\x1b[?47l", "\x1b[%de", "\x1b[%d;%dr\x1b[?6h", "\x1b[%d;%dr", "\x1b[r", "\x1b[s", "\x1b[u",
	"\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bM", "\x1bH", "\x1bc", "\x1b#8", "\x1b(0", "\x1b(B", "\x1b)0",
	"\x1b[%dn", "\x1b[%dc", "\x1b[>%dm", "\x1b[!p", "\x1b]4;%d;rgb:ff/00/ff\a", "\x1b]10;?\a", "\x1b]0;%d",
	"\x1b[-%d@", "\x1b[%d%d%d%d%d%d%d%dI",
}

// piece is one of pieces; intn is a source of numbers from 0 to n-1.
func piece(intn func(n int) int) string {
	p := pieces[intn(len(pieces))]
	for strings.Contains(p, "%d") {
		n := intn(12)
		if intn(8) == 0 {
			n = []int{0, 24, 80, 255, 256, 32767, 65536, 1 << 31, 1<<63 - 1}[intn(9)]
		}
		p = strings.Replace(p, "%d", fmt.Sprint(n), 1)
	}
	return p
}

// check says what is wrong with a shot, whatever was written.
func check(shot sandbox.Shot) error {
	lines := make([]string, len(shot.Lines))
	for i, spans := range shot.Lines {
		for j, s := range spans {
			lines[i] += s.Text
			same := s
			if j > 0 {
				if same.Text = spans[j-1].Text; same == spans[j-1] {
					return fmt.Errorf("line %d: spans %d and %d are alike", i, j-1, j)
				}
			}
		}
		if strings.HasSuffix(lines[i], " ") {
			return fmt.Errorf("line %d ends in blanks: %q", i, lines[i])
		}
	}
	if got := strings.Join(lines, "\n"); got != shot.Text {
		return fmt.Errorf("the text is not that of the lines: %s", cmp.Diff(got, shot.Text))
	}
	var before rune
	for _, r := range shot.Text {
		if r != '\n' && !visible(before, r) {
			return fmt.Errorf("%U is not to be seen", r)
		}
		before = r
	}
	if strings.HasSuffix(shot.Text, "\n") {
		return fmt.Errorf("empty lines at the end")
	}
	if n := len(shot.Lines); n > historyLines+shot.Rows {
		return fmt.Errorf("%d lines", n)
	}
	return nil
}

func newTestScreen(columns, rows int) *screen {
	return Viewer{}.NewScreen(sandbox.View{}, sandbox.TerminalSize{Columns: columns, Rows: rows}).(*screen)
}

// inBounds says what a screen has that it must not, whatever was written.
func (s *screen) inBounds() error {
	switch {
	case s.x < 0 || s.x >= s.size.Columns || s.y < 0 || s.y >= s.size.Rows:
		return fmt.Errorf("the cursor is at %d, %d", s.x, s.y)
	case s.top < 0 || s.bottom >= s.size.Rows || s.top > s.bottom, s.top == s.bottom && s.size.Rows > 1:
		return fmt.Errorf("the scroll region is %d to %d", s.top, s.bottom)
	case s.history.lines.n > historyLines || s.history.bytes > historyBytes || s.history.spans > historySpans:
		return fmt.Errorf("the history has %d lines", s.history.lines.n)
	}
	for _, g := range s.grids {
		if g == nil {
			continue
		}
		order := slices.Sorted(slices.Values(g.order))
		if len(g.rows) != s.size.Rows || len(slices.Compact(order)) != s.size.Rows {
			return fmt.Errorf("%d rows, in order %v", len(g.rows), g.order)
		}
		for y := range g.rows {
			if err := g.rows[y].inBounds(s.size.Columns); err != nil {
				return fmt.Errorf("row %d: %w", y, err)
			}
		}
	}
	return nil
}

func (r *gridRow) inBounds(columns int) error {
	if len(r.cells) != columns || len(r.marked) > 2*sandbox.MaxColumns {
		return fmt.Errorf("%d cells, %d marked ones", len(r.cells), len(r.marked))
	}
	wide := false // the one before: a second half follows
	for x := range r.cells {
		g := &r.cells[x]
		if wide != (g.r == wideTail) || wide && g.style != r.cells[x-1].style {
			return fmt.Errorf("half a character at %d", x)
		}
		text := string(r.append(nil, g))
		if utf8.RuneCountInString(text) > 1+maxMarks {
			return fmt.Errorf("%q at %d", text, x)
		}
		first, _ := utf8.DecodeRuneInString(text)
		wide = text != "" && width(first) == 2
	}
	if wide {
		return errors.New("half a character at the end")
	}
	return nil
}

// compareScreens says what is wrong with one screen, or differs in two.
func compareScreens(a, b *screen) error {
	if err := a.inBounds(); err != nil {
		return err
	}
	shot := a.Shot(true)
	if err := check(shot); err != nil {
		return err
	}
	if diff := cmp.Diff(shot, b.Shot(true)); diff != "" {
		return fmt.Errorf("-whole +chunks:\n%s", diff)
	}
	if a.cursor != b.cursor || a.saved != b.saved {
		return fmt.Errorf("the cursor is %+v or %+v", a.cursor, b.cursor)
	}
	return nil
}

// writeChunks writes input in chunks of that many bytes.
func (s *screen) writeChunks(input []byte, size int) {
	for chunk := range slices.Chunk(input, size) {
		_, _ = s.Write(chunk)
	}
}

// Where the input is cut does not matter.
func TestScreenChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		intn := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
		columns, rows := rapid.IntRange(1, 12).Draw(t, "columns"), rapid.IntRange(1, 5).Draw(t, "rows")
		var input []byte
		for range rapid.IntRange(0, 40).Draw(t, "pieces") {
			input = append(input, piece(intn)...)
		}
		whole, cut := newTestScreen(columns, rows), newTestScreen(columns, rows)
		_, _ = whole.Write(input)
		cut.writeChunks(input, rapid.IntRange(1, 9).Draw(t, "chunk"))
		if err := compareScreens(whole, cut); err != nil {
			t.Fatalf("%q: %v", input, err)
		}
	})
}

func FuzzScreen(f *testing.F) {
	for _, p := range pieces {
		f.Add([]byte(strings.ReplaceAll(p, "%d", "7")), uint8(9), uint8(3), uint8(5))
	}
	f.Add([]byte("1\r\n2\r\n3\r\n4\r\n\x1b[31m5\x1b[K\r\n6"), uint8(9), uint8(3), uint8(0))
	f.Fuzz(func(t *testing.T, input []byte, columns, rows, chunk uint8) {
		whole := newTestScreen(int(columns)%100, int(rows)%50)
		chunks := newTestScreen(int(columns)%100, int(rows)%50)
		_, _ = whole.Write(input)
		chunks.writeChunks(input, 1+int(chunk))
		if err := compareScreens(whole, chunks); err != nil {
			t.Fatal(err)
		}
		size := sandbox.TerminalSize{Columns: int(rows), Rows: int(chunk)}
		whole.Resize(size)
		chunks.Resize(size)
		_, _ = whole.Write(input)
		chunks.writeChunks(input, 1)
		if err := compareScreens(whole, chunks); err != nil {
			t.Fatal(err)
		}
	})
}

// corpus is random input, the same at each run.
func corpus(size int) []byte {
	random := rand.New(rand.NewPCG(4, 6))
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString(piece(random.IntN))
		if random.IntN(50) == 0 {
			for range random.IntN(20) {
				b.WriteByte(byte(random.IntN(256)))
			}
		}
	}
	return b.Bytes()
}

// heap is what is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const corpusSize = 10 << 20

func TestScreenCorpus(t *testing.T) {
	input, s := corpus(corpusSize), newTestScreen(80, 24)
	_, _ = s.Write(input[:len(input)/10])
	before := heap()
	for rest := input[len(input)/10:]; len(rest) > 0; {
		n := min(32<<10, len(rest))
		_, _ = s.Write(rest[:n])
		rest = rest[n:]
	}
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("%d bytes more are in use", grown)
	}
	if err := errors.Join(s.inBounds(), check(s.Shot(true))); err != nil {
		t.Error(err)
	}
}

// Each of these would be kept by a screen that keeps what has no end yet, answers,
// or forwards it.
func TestScreenFloods(t *testing.T) {
	var colors, marks strings.Builder
	for i := range 1 << 16 {
		fmt.Fprintf(&colors, "\x1b]4;%d;#123456\a", i)
		fmt.Fprintf(&marks, "%c%c\u0302\u0303", 0x4e00+i%20000, 0x310+i/20000)
	}
	floods := map[string]struct {
		input string
		most  int64 // bytes
	}{
		"a title without end":   {"\x1b]0;" + strings.Repeat("x", 2<<20), 256 << 10},
		"a string without end":  {"\x1bP" + strings.Repeat("é", 1<<20), 256 << 10},
		"parameters":            {"\x1b[" + strings.Repeat("1;", 1<<20) + "m", 256 << 10},
		"digits":                {"\x1b[" + strings.Repeat("9", 2<<20) + "@", 256 << 10},
		"intermediates":         {"\x1b" + strings.Repeat("(", 2<<20), 256 << 10},
		"queries":               {strings.Repeat("\x1b[6n\x1b[c", 1<<18), 256 << 10},
		"colors":                {colors.String(), 256 << 10},
		"characters with marks": {marks.String(), 1 << 20}, // and 1,000 lines
		"marks in one row":      {strings.ReplaceAll(marks.String(), "\u0303", "\r"), 256 << 10},
	}
	for name, flood := range floods {
		t.Run(name, func(t *testing.T) {
			s := newTestScreen(80, 24)
			input := []byte(flood.input)
			before := heap()
			_, _ = s.Write(input)
			if grown := heap() - before; grown > flood.most {
				t.Errorf("%d bytes more are in use", grown)
			}
			runtime.KeepAlive(s)
			runtime.KeepAlive(input)
		})
	}
	runtime.KeepAlive(floods) // or what is freed hides what is kept
}

// What goes beyond the screen takes no longer than what goes to its end.
func TestScreenFloodsTakeNoLonger(t *testing.T) {
	for name, format := range map[string]string{
		"tabs":        "\x1b[%dI\x1b[%dZ",
		"repetitions": "\rx\x1b[%[1]db",
	} {
		t.Run(name, func(t *testing.T) {
			took := func(n int) time.Duration {
				s, input := newTestScreen(16, 4), []byte(strings.Repeat(fmt.Sprintf(format, n, n), 1<<10))
				best := time.Hour // the machine may be busy
				for range 5 {
					began := time.Now()
					_, _ = s.Write(input)
					best = min(best, time.Since(began))
				}
				return best
			}
			if near, far := took(16), took(999999999); far > 8*near {
				t.Errorf("%v instead of %v", far, near)
			}
		})
	}
}
