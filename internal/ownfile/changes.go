package ownfile

import (
	"io/fs"
	"os"
)

// Changes knows when files are others than before: they were written or replaced, came or went, or a link on their path leads elsewhere,
// as a kubelet changes what it mounts.
type Changes struct{ seen []fs.FileInfo }

// Since reports whether one of the files, always the same ones, is another than when this was last called.
func (c *Changes) Since(names ...string) bool {
	var now []fs.FileInfo
	for _, name := range names {
		about, _ := os.Stat(name) // nil without it, which who reads it reports
		now = append(now, about)
	}
	before := c.seen
	c.seen = now
	for i := range now {
		if before == nil || !sameFile(before[i], now[i]) {
			return true
		}
	}
	return false
}

func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}
