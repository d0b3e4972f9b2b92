package names

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// crockford is the alphabet of ULIDs: no I, L, O or U to be misread.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// NewID is a command's ID, a ULID: 48 bits of milliseconds, then 80 random ones, so that names
// sort by time and none can be guessed.
func NewID() string {
	var random [10]byte
	rand.Read(random[:])
	hi := uint64(time.Now().UnixMilli())<<16 | uint64(binary.BigEndian.Uint16(random[:]))
	lo := binary.BigEndian.Uint64(random[2:])
	var id [26]byte
	for i := len(id) - 1; i >= 0; i-- {
		id[i] = crockford[lo&31]
		lo, hi = lo>>5|hi<<59, hi>>5
	}
	return string(id[:])
}
