package spool

import "belljar/sandbox"

// Stream tells a command's two outputs apart.
type Stream int

const (
	Stdout Stream = iota
	Stderr
)

func (s Stream) Name() string { return string(s.Which()) }

func (s Stream) Which() sandbox.Stream {
	if s == Stderr {
		return sandbox.Stderr
	}
	return sandbox.Stdout
}
