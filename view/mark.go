package view

import "fmt"

// omittedMark replaces the omitted part of the text, on a line of its own.
func omittedMark(w weight) string {
	if w.lines <= 0 {
		return fmt.Sprintf("[… %s left out …]", count(w.bytes, "byte"))
	}
	return fmt.Sprintf("[… %s, %s left out …]", count(w.bytes, "byte"), count(w.lines, "line"))
}

// cutMark replaces the omitted part of a line.
func cutMark(characters int64) string {
	return fmt.Sprintf("[… %s left out …]", count(characters, "character"))
}

// binaryMark replaces data.
func binaryMark(bytes int64) string {
	return fmt.Sprintf("[binary data: %s]", count(bytes, "byte"))
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
