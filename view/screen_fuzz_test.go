package view

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

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
	"\x1b[?1049h", "\x1b[?1049l", "\x1b[?47h", "\x1b[?47l", "\x1b[%d;%dr", "\x1b[r", "\x1b[s", "\x1b[u",
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
	return Viewer{}.NewScreen(sandbox.TerminalSize{Columns: columns, Rows: rows}).(*screen)
}

// write is Write, but for the recovery.
func (s *screen) write(data []byte) {
	for len(data) > 0 {
		data = data[s.parser.next(data, s):]
	}
}

// Where the input is cut does not matter, nor whether lines are delayed.
func TestScreenChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		intn := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
		columns, rows := rapid.IntRange(1, 12).Draw(t, "columns"), rapid.IntRange(1, 5).Draw(t, "rows")
		var input []byte
		for range rapid.IntRange(0, 40).Draw(t, "pieces") {
			input = append(input, piece(intn)...)
		}
		whole, cut, eager := newTestScreen(columns, rows), newTestScreen(columns, rows), newTestScreen(columns, rows)
		whole.write(input)
		for rest := input; len(rest) > 0; {
			n := min(rapid.IntRange(1, 9).Draw(t, "chunk"), len(rest))
			cut.write(rest[:n])
			rest = rest[n:]
		}
		for i := range input {
			eager.write(input[i : i+1])
			eager.settle()
		}
		want := whole.Shot()
		if err := check(want); err != nil {
			t.Fatalf("%q: %v", input, err)
		}
		if diff := cmp.Diff(want, cut.Shot()); diff != "" {
			t.Fatalf("%q in chunks (-whole +chunks):\n%s", input, diff)
		}
		if diff := cmp.Diff(want, eager.Shot()); diff != "" {
			t.Fatalf("%q (-delayed +eager):\n%s", input, diff)
		}
	})
}

func FuzzScreen(f *testing.F) {
	for _, p := range pieces {
		f.Add([]byte(strings.ReplaceAll(p, "%d", "7")), uint8(9), uint8(3), uint8(5))
	}
	f.Add([]byte("1\r\n2\r\n3\r\n4\r\n\x1b[31m5\x1b[K\r\n6"), uint8(9), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, input []byte, columns, rows, cut uint8) {
		whole := newTestScreen(int(columns)%100, int(rows)%50)
		chunks := newTestScreen(int(columns)%100, int(rows)%50)
		whole.write(input)
		middle := min(int(cut), len(input))
		chunks.write(input[:middle])
		chunks.settle()
		chunks.write(input[middle:])
		want := whole.Shot()
		if err := check(want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, chunks.Shot()); diff != "" {
			t.Fatalf("-whole +chunks:\n%s", diff)
		}
		whole.Resize(sandbox.TerminalSize{Columns: int(rows), Rows: int(cut)})
		whole.write(input)
		if err := check(whole.Shot()); err != nil {
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

func TestScreenCorpus(t *testing.T) {
	input, s := corpus(corpusSize), newTestScreen(80, 24)
	s.write(input[:len(input)/10])
	before := heap()
	for rest := input[len(input)/10:]; len(rest) > 0; {
		n := min(32<<10, len(rest))
		s.write(rest[:n])
		rest = rest[n:]
	}
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("%d bytes more are in use", grown)
	}
	if err := check(s.Shot()); err != nil {
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
		"characters with marks": {marks.String(), 4 << 20}, // those of maxClusters, and 1,000 lines
	}
	for name, flood := range floods {
		t.Run(name, func(t *testing.T) {
			s := newTestScreen(80, 24)
			input := []byte(flood.input)
			before := heap()
			s.write(input)
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
					s.write(input)
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
