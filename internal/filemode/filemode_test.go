package filemode

import (
	"io/fs"
	"testing"
)

// Every mode is the same after it was written and read.
func TestBothWays(t *testing.T) {
	for _, kind := range []fs.FileMode{0, fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe, fs.ModeSocket, fs.ModeDevice} {
		for bits := range uint32(0o10000) {
			mode := Of(Type(kind), bits)
			if mode.Type() != kind || Bits(mode) != bits {
				t.Fatalf("%v with %o is %v: %s, %o", kind, bits, mode, Type(mode), Bits(mode))
			}
		}
	}
	for mode, want := range map[fs.FileMode]string{0o644: "file", fs.ModeDir | fs.ModeSticky | 0o777: "directory", fs.ModeDevice | fs.ModeCharDevice: "device"} {
		if got := Type(mode); got != want {
			t.Errorf("%v is a %s, want %s", mode, got, want)
		}
	}
}
