package httpapi

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"

	"github.com/danielgtaylor/huma/v2"
)

type (
	humaContext huma.Context // which has a method Context

	// summed hashes a request's body while it is read: its bytes would be in memory for as
	// long as the command runs.
	summed struct {
		humaContext
		ctx  context.Context
		hash hash.Hash
	}

	sumKey struct{}
)

// sum is a middleware for bodySum.
func sum(c huma.Context, next func(huma.Context)) {
	h := sha256.New()
	next(summed{c, context.WithValue(c.Context(), sumKey{}, h), h})
}

func (s summed) Unwrap() huma.Context     { return s.humaContext }
func (s summed) Context() context.Context { return s.ctx }
func (s summed) BodyReader() io.Reader    { return io.TeeReader(s.humaContext.BodyReader(), s.hash) }

// bodySum is the SHA-256 of the request's body. It is nil if the request is another one's
// part.
func bodySum(ctx context.Context) []byte {
	h, ok := ctx.Value(sumKey{}).(hash.Hash)
	if !ok {
		return nil
	}
	return h.Sum(nil)
}
