package spool

import "belljar/sandbox"

// Stream tells a command's two outputs apart.
type Stream int

// The streams.
const (
	Stdout Stream = iota
	Stderr
)

// Name is "stdout" or "stderr".
func (s Stream) Name() string { return string(s.Which()) }

// Which is the contract's name of it.
func (s Stream) Which() sandbox.Stream {
	if s == Stderr {
		return sandbox.Stderr
	}
	return sandbox.Stdout
}
