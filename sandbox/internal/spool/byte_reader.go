package spool

import (
	"context"
	"fmt"
)

// ByteReader is an io.Reader of what is kept.
type ByteReader struct {
	reader *Reader
	rest   []byte
}

// Read implements io.Reader.
func (k *ByteReader) Read(p []byte) (int, error) {
	for len(k.rest) == 0 {
		c, err := k.reader.Next(context.Background())
		if err != nil {
			return 0, err
		}
		k.rest = c.Data
		if c.Missed > 0 {
			k.rest = append(fmt.Appendf(nil, "\n[%d bytes were not stored]\n", c.Missed), c.Data...)
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// Close closes the files.
func (k *ByteReader) Close() { k.reader.Close() }
