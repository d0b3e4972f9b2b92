package httpapi

import (
	"net/url"

	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/strictjson"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// onlyOnce are headers of which one counts. Of two, a proxy may see the other.
var onlyOnce = []string{"Idempotency-Key", "Last-Event-Id", "Content-Type", "Content-Encoding"}

// oneMeaning is a middleware that refuses what readers understand in different ways.
func oneMeaning(c huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(c)
	for _, name := range onlyOnce {
		if len(r.Header[name]) > 1 {
			problem.Of(sandbox.Invalid("send it once", "the header %s comes %d times", name, len(r.Header[name]))).Write(w)
			return
		}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		problem.New(problem.UnsupportedMediaType, "the body is compressed", "send it without Content-Encoding").Write(w)
		return
	}
	if r.URL.RawQuery != "" {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil { // what cannot be read would be left out
			problem.Of(sandbox.Invalid("escape it as a URL's query", "the query cannot be read: %v", err)).Write(w)
			return
		}
		for name, values := range query {
			if len(values) > 1 {
				problem.Of(sandbox.Invalid("send it once", "the query has %.80q %d times", name, len(values))).Write(w)
				return
			}
		}
	}
	next(c)
}

// strictJSON is JSON that all readers understand the same way.
func strictJSON() map[string]huma.Format {
	f := huma.DefaultJSONFormat
	unmarshal := f.Unmarshal
	f.Unmarshal = func(text []byte, into any) error {
		if _, first := into.(*any); first { // huma reads it again, into the request
			if err := strictjson.Check(text); err != nil {
				return err
			}
		}
		return unmarshal(text, into)
	}
	return map[string]huma.Format{"application/json": f, "json": f}
}
