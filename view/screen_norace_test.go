//go:build !race

package view

const corpusSize = 10 << 20
