package boxinit

import (
	"bytes"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"belljar/internal/boxinit/wire"
)

// openHow is struct open_how of openat2(2).
type openHow struct{ flags, mode, resolve uint64 }

// Numbers of openat2(2), the same on all architectures but for oPath's.
const (
	sysOpenat2        = 437
	resolveNoXDev     = 1
	resolveNoMagic    = 2
	oPath             = 0x200000
	maxLookedAt       = 256
	maxNameLookedUpTo = 4096
)

// look answers a wire.LookRequest.
func look(r *wire.LookRequest) (records [][]byte) {
	for i, name := range r.Names {
		if i == maxLookedAt {
			break
		}
		texts, errno := lookAt(r, name)
		if errno != 0 {
			texts = [][]byte{[]byte(strconv.Itoa(int(errno)))}
		} else {
			texts = append([][]byte{nil}, texts...)
		}
		records = append(records, wire.AppendRecord(nil, texts...))
	}
	return records
}

func lookAt(r *wire.LookRequest, name string) ([][]byte, syscall.Errno) {
	if len(name) > maxNameLookedUpTo || !strings.HasPrefix(name, "/") {
		return nil, syscall.EINVAL
	}
	switch r.What {
	case wire.LookMode:
		link, errno := modeOf(name, r.Image, syscall.O_NOFOLLOW)
		if errno != 0 {
			return nil, errno
		}
		text := []byte(strconv.Itoa(int(link)))
		if link&syscall.S_IFMT != syscall.S_IFLNK {
			return [][]byte{text}, 0
		}
		to, errno := modeOf(name, r.Image, 0)
		if errno != 0 {
			return [][]byte{text, []byte("0")}, 0
		}
		return [][]byte{text, []byte(strconv.Itoa(int(to)))}, 0
	case wire.LookSpace:
		var fs syscall.Statfs_t
		if err := syscall.Statfs(name, &fs); err != nil {
			return nil, errnoOf(err)
		}
		var text []byte
		for _, n := range []uint64{uint64(fs.Type), fs.Bavail, fs.Ffree} {
			text = append(strconv.AppendUint(text, n, 10), ' ')
		}
		return [][]byte{text}, 0
	}
	text, errno := textOf(name, r.Image, int64(r.Offset))
	return [][]byte{text}, errno
}

// openPath opens a file only to look at it. What a link leads to is within the container's root anyway.
func openPath(name string, image bool, flags int) (int, syscall.Errno) {
	how := openHow{flags: uint64(oPath | syscall.O_CLOEXEC | flags), resolve: resolveNoMagic}
	if image {
		how.resolve |= resolveNoXDev
	}
	path, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, syscall.EINVAL
	}
	at := -100 // AT_FDCWD: names begin at the root
	fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(at), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	return int(fd), errno
}

func modeOf(name string, image bool, flags int) (uint32, syscall.Errno) {
	fd, errno := openPath(name, image, flags)
	if errno != 0 {
		return 0, errno
	}
	defer syscall.Close(fd)
	var about syscall.Stat_t
	if err := syscall.Fstat(fd, &about); err != nil {
		return 0, errnoOf(err)
	}
	return about.Mode, 0
}

// textRoom is the worker's: most files are short, and what is allocated is the container's memory.
var textRoom [wire.MaxText]byte

// textOf reads a part of a regular file.
func textOf(name string, image bool, offset int64) ([]byte, syscall.Errno) {
	path, errno := openPath(name, image, 0)
	if errno != 0 {
		return nil, errno
	}
	defer syscall.Close(path)
	var about syscall.Stat_t
	if err := syscall.Fstat(path, &about); err != nil {
		return nil, errnoOf(err)
	}
	if about.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, syscall.EINVAL
	}
	fd, err := syscall.Open("/proc/self/fd/"+strconv.Itoa(path), syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errnoOf(err)
	}
	defer syscall.Close(fd)
	have := 0
	for have < len(textRoom) {
		n, err := syscall.Pread(fd, textRoom[have:], offset+int64(have))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, errnoOf(err)
		}
		if n == 0 {
			break
		}
		have += n
	}
	return bytes.Clone(textRoom[:have]), 0
}
