package view

import "unicode/utf8"

// cell is one character of a line, with up to two marks on it.
type cell struct {
	base  rune
	marks [2]rune
	w     weight
}

func (c *cell) append(p []byte) []byte {
	p = utf8.AppendRune(p, c.base)
	for _, m := range c.marks {
		if m != 0 {
			p = utf8.AppendRune(p, m)
		}
	}
	return p
}

// row is a line as cells: its beginning, the number of lost ones, and its end.
type row struct {
	headMax, tailMax int
	head             []cell
	lost             int
	tail             queue[cell]
	cut              weight // the weight of what was written to lost cells
}

func (r *row) width() int { return len(r.head) + r.lost + r.tail.n }

// at is the cell in a column of the row, or nil if it is lost.
func (r *row) at(column int) *cell {
	if column < len(r.head) {
		return &r.head[column]
	}
	if column -= len(r.head) + r.lost; column >= 0 {
		return r.tail.at(column)
	}
	return nil
}

// set writes into a column, over what is there, or after the row's end.
func (r *row) set(column int, c cell) {
	for r.width() < column {
		r.push(cell{base: ' '})
	}
	if column == r.width() {
		r.push(c)
	} else if at := r.at(column); at != nil {
		c.w.add(at.w)
		*at = c
	} else {
		r.cut.add(c.w)
	}
}

// ascii writes single bytes from a column on, and returns the next column.
func (r *row) ascii(column int, p []byte) int {
	if over := len(p) - r.tailMax; over > 0 && column == r.width() && len(r.head) == r.headMax {
		// These would pass through the tail and be lost.
		for r.tail.n > 0 {
			r.cut.add(r.tail.shift().w)
			r.lost++
		}
		r.cut.bytes += int64(over)
		r.lost += over
		column += over
		p = p[over:]
	}
	for _, c := range p {
		if column < len(r.head) {
			at := &r.head[column]
			at.base, at.marks = rune(c), [2]rune{}
			at.w.bytes++
		} else {
			r.set(column, cell{base: rune(c), w: weight{bytes: 1}})
		}
		column++
	}
	return column
}

// extend puts a mark on the cell in a column, if there is room for it.
func (r *row) extend(column int, mark rune, w weight) bool {
	if column < 0 || column >= r.width() {
		return false
	}
	at := r.at(column)
	if at == nil {
		r.cut.add(w)
		return true
	}
	for i := range at.marks {
		if at.marks[i] == 0 {
			at.marks[i] = mark
			at.w.add(w)
			return true
		}
	}
	return false
}

func (r *row) push(c cell) {
	if len(r.head) < r.headMax {
		r.head = append(r.head, c)
		return
	}
	if r.tail.n == r.tailMax {
		r.lost++
		if r.tailMax == 0 {
			r.cut.add(c.w)
			return
		}
		r.cut.add(r.tail.shift().w)
	}
	r.tail.push(c)
}

// truncate erases from a column on, and returns the weight of the erased cells.
func (r *row) truncate(column int) (w weight) {
	for r.tail.n > 0 && r.width() > column {
		w.add(r.tail.at(r.tail.n - 1).w)
		r.tail.n--
	}
	r.lost = max(0, min(r.lost, column-len(r.head)))
	for len(r.head) > column {
		w.add(r.head[len(r.head)-1].w)
		r.head = r.head[:len(r.head)-1]
	}
	return w
}

func (r *row) reset() {
	r.head, r.lost, r.cut = r.head[:0], 0, weight{}
	r.tail.start, r.tail.n = 0, 0
}
