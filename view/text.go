package view

import "belljar/sandbox"

// text makes the view of what was kept of a source.
func (k *keeper) text(s *source, total sandbox.Total) sandbox.Text {
	total.Bytes = max(total.Bytes, s.position())
	total.Lines = max(total.Lines, s.seen.lines)
	if s.binary && s.text.bytes == 0 {
		return sandbox.Text{Text: binaryMark(total.Bytes), OmittedBytes: total.Bytes, OmittedLines: total.Lines, Binary: true}
	}
	parts := k.account(s, total)
	t := sandbox.Text{
		Text:         parts.text(),
		OmittedBytes: total.Bytes - parts.shown.bytes,
		OmittedLines: max(0, total.Lines-parts.shown.lines),
		Charset:      s.charset.name,
		Binary:       s.binary,
	}
	if t.Charset == "" {
		t.Charset = "utf-8" // ASCII is
	}
	return t
}

// parts is what a view consists of, in order.
type parts struct {
	head   []byte
	middle weight // left out
	tail   []byte
	after  weight // left out, or missing, at the end
	data   int64  // bytes that are no text, at the end

	shown weight
}

// account says what became of each byte.
func (k *keeper) account(s *source, total sandbox.Total) parts {
	var p parts
	missing := total.Lines - s.seen.lines // and no one knows from which gap
	seen := weight{s.position(), s.seen.lines}
	switch rest := total.Bytes - s.position(); {
	case s.binary:
		seen = weight{s.turned, s.text.lines}
		p.data = total.Bytes - s.turned
	case rest > 0 && k.gaps:
		k.gap() // one mark for both: their lines cannot be distinguished
		seen.bytes += rest
	case rest > 0:
		p.after = weight{rest, missing}
	}
	if k.gaps {
		seen.lines += missing
	}
	end := k.end()
	p.head, p.tail = k.head, end.text
	p.shown = k.headW
	p.shown.add(end.w)
	p.middle = seen.minus(p.shown).minus(k.headCut).minus(end.cut)
	return p
}

// end is what the bounds leave of the end.
func (k *keeper) end() kept {
	k.tail.seal()
	size, lf := k.tail.size-k.tail.bytes, int64(0)
	lines := k.tail.countLines()
	whole := !k.gaps && !k.tail.dropped && size <= 0
	if !whole || k.headLF+lines > k.lines {
		allowed := k.lines - k.headLF
		if k.headPartial() {
			allowed--
		}
		lf = lines - allowed
	}
	return k.tail.trim(size, lf)
}

func (p *parts) text() string {
	text := p.head
	if p.middle.bytes > 0 {
		text = appendMark(text, omittedMark(p.middle))
		if len(p.tail) > 0 {
			text = append(text, '\n')
		}
	}
	text = append(text, p.tail...)
	if p.after.bytes > 0 {
		text = appendMark(text, omittedMark(p.after))
	}
	if p.data > 0 {
		text = appendMark(text, binaryMark(p.data))
	}
	return string(text)
}

// appendMark appends a mark on its own line.
func appendMark(text []byte, mark string) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return append(text, mark...)
}
