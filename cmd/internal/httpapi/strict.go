package httpapi

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
)

// strictJSON is JSON that all readers understand the same way. encoding/json takes the
// last of two fields with one name, where a proxy that checks commands may see the first,
// and runs "echo \ufffd" for what is not UTF-8.
func strictJSON() map[string]huma.Format {
	f := huma.DefaultJSONFormat
	unmarshal := f.Unmarshal
	f.Unmarshal = func(text []byte, into any) error {
		if _, first := into.(*any); first { // huma reads it again, into the request
			if err := strict(text); err != nil {
				return err
			}
		}
		return unmarshal(text, into)
	}
	return map[string]huma.Format{"application/json": f, "json": f}
}

func strict(text []byte) error {
	_, err := jsontext.NewDecoder(bytes.NewBuffer(text)).ReadValue()
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("%w at byte %d", wrong.Err, wrong.ByteOffset)
	}
	return err
}
