// Package view turns a command's output into what a person or a model reads: text
// that is bounded, in UTF-8 and safe to look at, and the screen that a terminal
// would show.
//
//	text := view.Viewer{}.View(sandbox.View{Bytes: 32 << 10}, chunks, total)
//
// The rule to remember: of each byte that the command wrote, Text says truly
// whether it is there. What redraws and escape sequences did to a line that is
// shown counts as shown; what a bound or a reader's gap took away is counted, to
// the byte, in Text.OmittedBytes and in the mark that stands in its place. A
// command can print such a mark itself: the fields are what to trust.
//
// # Design
//
// One pass, in memory that the bounds of the view give. Bytes go through
//
//	source     blocks of 4 KiB, each sniffed; the charset, from at most 64 KiB
//	decoder    characters, each with the weight of the bytes it was made from
//	line       one line as a terminal would leave it: redraws, escapes
//	keeper     the beginning, and a queue that holds the end
//
// and a weight travels with each character, so that a cut anywhere knows what it
// cuts. What is decided depends on the bytes alone, never on how they were
// divided into chunks. Plain lines, which are nearly all, pass whole.
//
//   - A terminal is taken to be as wide as the line, and each character to be
//     one column: for what moves in two dimensions there is the screen.
//   - A line end ends an escape sequence. A terminal would swallow what follows
//     an unfinished one: a command could hide its output from a reader. But for
//     that, views and screens read sequences by the same state machine.
//   - An invalid byte is shown as \xNN, which says what it was.
//   - A mark between beginning and end does not count in the bounds; one within a
//     line is a part of the text and counts.
package view

import (
	"iter"

	"belljar/sandbox"
)

const (
	maxBytes     = 16 << 20 // of a view that has no bound
	maxLineChars = 1 << 20  // of a line, whatever the bound: it is held as cells
)

// Viewer implements sandbox.Viewer.
type Viewer struct{}

var _ sandbox.Viewer = Viewer{}

// View reads chunks to their end, and makes them one text within the bounds of
// v. A zero bound is none, but for 16 MiB of text and a mebi of characters in a
// line. Memory is some multiple of v.Bytes, however much there is to read.
func (Viewer) View(v sandbox.View, chunks iter.Seq[sandbox.Chunk], total sandbox.Total) sandbox.Text {
	k := newKeeper(v)
	s := newSource(v, newLineReader(k, v.LineChars))
	for c := range chunks {
		if c.Missed > 0 {
			s.gap(c.Missed)
		}
		s.write(c.Data)
	}
	s.end()
	return k.text(s, total)
}
