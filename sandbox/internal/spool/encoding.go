package spool

import (
	"belljar/internal/sniff"
	"belljar/sandbox"
)

// ReplaceOutput is o as valid UTF-8. The parts of characters at its gap become part of
// the gap: the head is the beginning of the decoded stream, and the tail its end.
func ReplaceOutput(o sandbox.Output) sandbox.Output {
	if o.Dropped > 0 {
		all := len(o.Head) + len(o.Tail)
		o.Head, o.Tail = WholeRunes(o.Head), FromRune(o.Tail)
		o.Dropped += int64(all - len(o.Head) - len(o.Tail))
	}
	head, of := sniff.Replace(o.Head)
	tail, also := sniff.Replace(o.Tail)
	o.Head, o.Tail, o.Encoding = head, tail, max(of, also) // "" < UTF8Plain < UTF8Replaced
	return o
}
