package view

import "unicode/utf8"

// write writes a character at the cursor.
func (l *lineReader) write(r rune, w weight) {
	if !l.celled && !l.cr && l.chars < l.limit {
		l.append(r, w)
		return
	}
	l.toCells()
	w.add(l.carry)
	l.carry = weight{}
	if l.before != 0 && extends(r) && l.row.extend(l.column-1, r, w) {
		l.before = r
		return
	}
	l.row.set(l.column, cell{base: r, w: w})
	l.column++
	l.before = r
}

func (l *lineReader) append(r rune, w weight) {
	w.add(l.carry)
	l.carry = weight{}
	at := len(l.text)
	l.text = utf8.AppendRune(l.text, r)
	if w != (weight{bytes: int64(len(l.text) - at)}) {
		l.seams = append(l.seams, seam{at, w})
	}
	l.chars++
	l.before = r
}

// toCells converts the text, and a \r after it that was not part of a line end.
func (l *lineReader) toCells() {
	cr := l.cr
	l.cr = false
	if !l.celled {
		l.celled = true
		l.fill()
	}
	if cr {
		l.carry.bytes++
		l.move(0)
	}
}

// fill converts the text to cells.
func (l *lineReader) fill() {
	carry, seams := l.carry, l.seams
	l.carry, l.before = weight{}, 0
	for at, r := range string(l.text) {
		w := weight{bytes: int64(utf8.RuneLen(r))}
		if len(seams) > 0 && seams[0].at == at {
			w = seams[0].w
			seams = seams[1:]
		}
		l.write(r, w)
	}
	l.text, l.seams, l.carry = l.text[:0], l.seams[:0], carry
}
