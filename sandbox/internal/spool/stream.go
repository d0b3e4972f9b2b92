package spool

import "belljar/sandbox"

// Stream distinguishes a command's two outputs.
type Stream int

// The streams, as indexes.
const (
	Stdout Stream = iota
	Stderr
)

// String is its name.
func (s Stream) String() string { return string(s.Name()) }

// Name is its name in the contract.
func (s Stream) Name() sandbox.Stream {
	if s == Stderr {
		return sandbox.Stderr
	}
	return sandbox.Stdout
}
