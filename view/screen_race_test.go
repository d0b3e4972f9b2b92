//go:build race

package view

// The race detector makes vt10x twenty times as slow.
const corpusSize = 1 << 20
