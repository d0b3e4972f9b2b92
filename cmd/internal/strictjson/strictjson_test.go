package strictjson

import "testing"

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		`{"a": "ü \ud83d\ude00", "b": {"a": [1e3, null]}}`: true,
		`{"a": 1, "a": 1}`:             false,
		`{"x": {"a": 1, "\u0061": 2}}`: false,
		"{\"a\": \"\xff\"}":            false,
		`{"a": "\ud800"}`:              false,
		`{"a": "\udc00\ud800"}`:        false,
		`{`:                            false,
	} {
		if err := Check([]byte(text)); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
