package view

// queue is first in, first out. It keeps the memory of its largest size.
type queue[T any] struct {
	buf   []T
	start int
	n     int
}

func (q *queue[T]) at(i int) *T {
	i += q.start
	if i >= len(q.buf) {
		i -= len(q.buf)
	}
	return &q.buf[i]
}

func (q *queue[T]) push(v T) {
	if q.n == len(q.buf) {
		buf := make([]T, max(64, 2*q.n))
		n := copy(buf, q.buf[q.start:])
		copy(buf[n:], q.buf[:q.start])
		q.buf, q.start = buf, 0
	}
	q.n++
	*q.at(q.n - 1) = v
}

// shift returns the first element and forgets it.
func (q *queue[T]) shift() T {
	var none T
	v := *q.at(0)
	*q.at(0) = none
	q.n--
	if q.start++; q.start == len(q.buf) {
		q.start = 0
	}
	return v
}
