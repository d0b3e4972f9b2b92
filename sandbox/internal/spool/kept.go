package spool

import (
	"context"
	"fmt"
)

// keptReader reads what is kept as a file.
type keptReader struct {
	reader *Reader
	rest   []byte
}

func (k *keptReader) Read(p []byte) (int, error) {
	for len(k.rest) == 0 {
		c, err := k.reader.Next(context.Background())
		if err != nil {
			return 0, err
		}
		k.rest = c.Data
		if c.Missed > 0 {
			k.rest = append(fmt.Appendf(nil, "\n[%d bytes were not kept]\n", c.Missed), c.Data...)
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

func (k *keptReader) Close() { k.reader.Close() }
