// Package filemode writes modes of files as people and other programs know them: the type as
// a word, and the bits as chmod(1) has them.
package filemode

import (
	"fmt"
	"io/fs"
)

// types are the types of files by their names. All others are devices.
var types = map[string]fs.FileMode{"file": 0, "directory": fs.ModeDir, "link": fs.ModeSymlink, "fifo": fs.ModeNamedPipe, "socket": fs.ModeSocket}

const device = "device"

var special = map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}

// Type is the name of a file's type.
func Type(mode fs.FileMode) string {
	for name, is := range types {
		if mode.Type() == is {
			return name
		}
	}
	return device
}

// Bits are those of chmod(1): permissions, setuid, setgid and sticky.
func Bits(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for bit, is := range special {
		if mode&is != 0 {
			bits |= bit
		}
	}
	return bits
}

// Octal are the bits as chmod(1) writes them.
func Octal(mode fs.FileMode) string { return fmt.Sprintf("%04o", Bits(mode)) }

// Of is the mode with that type and those bits.
func Of(name string, bits uint32) fs.FileMode {
	mode, known := types[name]
	if !known {
		mode = fs.ModeDevice
	}
	mode |= fs.FileMode(bits).Perm()
	for bit, is := range special {
		if bits&bit != 0 {
			mode |= is
		}
	}
	return mode
}
