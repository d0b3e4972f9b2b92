// Package strictjson refuses JSON that readers understand in different ways.
//
// The one rule: what passes has one meaning. encoding/json takes the last of two fields with
// one name, where a proxy that checks commands may see the first, and runs "echo \ufffd" for
// what is not UTF-8.
//
//	if err := strictjson.Check(body); err != nil {
package strictjson

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Check refuses a text that does not begin with one JSON value, that has two fields with one
// name, or that is not UTF-8. It does not look at what follows the value.
func Check(text []byte) error {
	_, err := jsontext.NewDecoder(bytes.NewBuffer(text)).ReadValue()
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("%w at byte %d", wrong.Err, wrong.ByteOffset)
	}
	return err
}
