package httpapi

import (
	"belljar/cmd/internal/strictjson"

	"github.com/danielgtaylor/huma/v2"
)

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
