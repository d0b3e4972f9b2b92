package suite

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// StrictJSON reads one value, and refuses what encoding/json would not tell of: a key that is there twice, of which
// the last would count, text after the value, and bytes that are not UTF-8, which it replaces. With known, it refuses
// keys that into does not have, too.
func StrictJSON(text []byte, into any, known bool) error {
	err := json.Unmarshal(text, into, json.MatchCaseInsensitiveNames(true), json.RejectUnknownMembers(known))
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && errors.Is(err, json.ErrUnknownName) {
		return fmt.Errorf("unknown field %q", wrong.JSONPointer.LastToken())
	}
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("key %q is there twice", wrong.JSONPointer.LastToken())
	}
	return err
}
