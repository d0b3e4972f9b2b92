package wire

import "bytes"

// A frame of data has a body of a mask, the data, each byte XORed with that, and, unless the mask is 0, a newline. A node of Kubernetes
// logs what containers write, and makes a record of forty bytes and more of each line: so what is logged and has many newlines is
// sent with few. The one at the end is for a log that keeps a line in memory until it is whole.

const (
	// DataAt is where the data is in a frame.
	DataAt = Header + 1
	// MaxData bounds it, in bytes.
	MaxData = MaxFrame - 2
)

// PutData makes a frame, in place, of the n bytes from DataAt on, and returns it. b holds the largest one.
func PutData(b []byte, kind Kind, id uint32, n int, logged bool) []byte {
	data, end := b[DataAt:DataAt+n], DataAt+n
	b[Header] = 0
	if logged {
		b[Header] = maskOf(data)
	}
	if mask := b[Header]; mask != 0 {
		unmask(data, mask)
		b[end] = '\n'
		end++
	}
	PutHeader(b, kind, id, end-Header)
	return b[:end]
}

// Data is what is in the body of such a frame. It is decoded in place.
func Data(body []byte) (data []byte, ok bool) {
	if len(body) == 0 {
		return nil, false
	}
	mask, data := body[0], body[1:]
	if mask == 0 {
		return data, len(data) <= MaxData
	}
	last := len(data) - 1
	if last < 0 || data[last] != '\n' {
		return nil, false
	}
	unmask(data[:last], mask)
	return data[:last], true
}

func unmask(data []byte, mask byte) {
	for i := range data {
		data[i] ^= mask
	}
}

// maskOf leaves the data with as many newlines as it has of its rarest byte: one in 256 at most. Few stay as they are.
func maskOf(data []byte) byte {
	if bytes.Count(data, []byte{'\n'}) <= 1+len(data)/256 {
		return 0
	}
	var counts [256]uint32
	for _, c := range data {
		counts[c]++
	}
	rarest := byte('\n')
	for c := 255; c >= 0; c-- { // 0 last: its mask is a newline
		if counts[c] < counts[rarest] {
			rarest = byte(c)
		}
	}
	return rarest ^ '\n'
}
