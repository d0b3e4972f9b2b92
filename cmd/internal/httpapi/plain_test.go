package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/go-cmp/cmp"
)

// slowly is how huma reads a body, nil where it refuses it.
func slowly(f *testing.F) func(text string) *RunRequest {
	f.Helper()
	var got *RunRequest
	mux := http.NewServeMux()
	c := huma.DefaultConfig("", "")
	c.Formats, c.CreateHooks = strictJSON(), nil
	huma.Register(humago.New(mux, c), huma.Operation{Method: http.MethodPost, Path: "/", MaxBodyBytes: -1}, func(_ context.Context, in *runInput) (*struct{}, error) {
		got = &in.Body
		return nil, nil
	})
	return func(text string) *RunRequest {
		got = nil
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
		mux.ServeHTTP(httptest.NewRecorder(), r)
		return got
	}
}

// A request that is read once is the one that it is where it is read three times.
func FuzzPlain(f *testing.F) {
	slow := slowly(f)
	for text, isPlain := range map[string]bool{
		`{"command": "true"}`: true,
		` { "command" : "echo \ud83d\ude00 \u0000" , "id":"a","session":"s","dir":"/d","profile":"p","description":"why"} ` + "\n": true,
		`{"command":"cat","stdin":"a\tb","stdin_open":true,"cancel_on_disconnect":false}`:                                          true,
		`{"command":"x","timeout_seconds":1.5,"idle_timeout_seconds":1e2}`:                                                         true,
		`{"command":"x","env":{"A":"1","b":""}}`:                                                                                   true,
		`{"command":"x","env":{}}`:                                                                                                 true,
		`{"command":"x","idle_timeout_seconds":0}`:                                                                                 false,
		`{"command":"x","timeout_seconds":31536001}`:                                                                               false,
		`{"command":"x","timeout_seconds":1e999}`:                                                                                  false,
		`{"command":"x","timeout_seconds":-0}`:                                                                                     false,
		`{"command":"x","timeout_seconds":"1"}`:                                                                                    false,
		`{"command":"x","timeout_seconds":null}`:                                                                                   false,
		`{"command":"x","id":"` + strings.Repeat("a", 65) + `"}`:                                                                   false,
		`{"command":"x","session":"` + strings.Repeat("ü", 33) + `"}`:                                                              false,
		`{"command":"x","limits":{"pids":1}}`:                                                                                      false,
		`{"command":"x","Command":"y"}`:                                                                                            false,
		`{"command":"x","command":"y"}`:                                                                                            false,
		`{"command":"x","env":{"A":"1","A":"2"}}`:                                                                                  false,
		`{"command":"x","env":{"A":1}}`:                                                                                            false,
		`{"command":"x","env":null}`:                                                                                               false,
		`{"command":"x","stdin_open":1}`:                                                                                           false,
		`{"command":null}`:                                                                                                         false,
		`{"command":""}`:                                                                                                           false,
		`{"command":"x"}{}`:                                                                                                        false,
		`{"command":"x"}x`:                                                                                                         false,
		`{"command":"x",}`:                                                                                                         false,
		`{"command":"x"`:                                                                                                           false,
		`{"command":"\ud800"}`:                                                                                                     false,
		"{\"command\":\"\xff\"}":                                                                                                   false,
		"\ufeff{\"command\":\"x\"}":                                                                                                false,
		`[]`:                                                                                                                       false,
		``:                                                                                                                         false,
	} {
		if got := new(RunRequest).plain([]byte(text)); got != isPlain {
			f.Errorf("%s: %v", text, got)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var quick RunRequest
		if !quick.plain([]byte(text)) {
			return
		}
		if diff := cmp.Diff(slow(text), &quick); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	})
}

func TestPlainKey(t *testing.T) {
	for key, want := range map[string]bool{"": true, "a-Key~!": true, strings.Repeat("k", 255): true, strings.Repeat("k", 256): false, "a b": false, "\x7f": false, "é": false, "\xe9": false, "a\tb": false} {
		if isPlainKey(key) != want {
			t.Errorf("%q", key)
		}
	}
}
