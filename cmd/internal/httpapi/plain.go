package httpapi

import (
	"bytes"
	"math"
	"strings"

	"belljar/cmd/internal/problem"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json/jsontext"
)

// Most requests that run a command say little: what, where, for how long. Those are read
// once, token by token. All others, and all that is wrong, go the way of the API's other
// operations, which read a body three times: to see that it has one meaning, to compare it with the
// schema, and into the request. FuzzPlain holds both ways to the same requests.

// plainly is a middleware of POST /v1/executions.
func (s *Server) plainly(c huma.Context, next func(huma.Context)) {
	in, ok := plainRun(c)
	if !ok {
		next(c)
		return
	}
	out, err := s.run(c.Context(), in)
	if err != nil {
		_, w := humago.Unwrap(c)
		problem.Of(err).Write(w)
		return
	}
	out.Body(c)
}

// plainRun is a request that is plain.
func plainRun(c huma.Context) (*runInput, bool) {
	b, ok := c.Context().Value(bodyKey{}).(*body)
	u := c.URL()
	in := &runInput{Key: c.Header("Idempotency-Key"), Accept: c.Header("Accept"), Wait: strings.TrimPrefix(u.RawQuery, "wait=")}
	if !ok || b.file != nil || u.RawQuery != "" && u.RawQuery != "wait=0" || c.Header("Content-Type") != "application/json" || !isPlainKey(in.Key) {
		return nil, false
	}
	return in, in.Body.plain(b.data)
}

// isPlainKey reports whether a key is one that runInput's pattern allows.
func isPlainKey(key string) bool {
	return len(key) <= 255 && !strings.ContainsFunc(key, func(r rune) bool { return r < 0x21 || r > 0x7e })
}

// plain reads a body. Where it is false, the body may be as good, and r is not to be used.
func (r *RunRequest) plain(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(text)) // refuses what strictjson does
	if !begins(d) {
		return false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil || !r.plainField(name.String(), d) {
			return false
		}
	}
	return ends(d) && d.PeekKind() == 0 && len(bytes.TrimLeft(text[d.InputOffset():], " \t\r\n")) == 0 && r.Command != ""
}

func begins(d *jsontext.Decoder) bool { return d.PeekKind() == '{' && skip(d) }
func ends(d *jsontext.Decoder) bool   { return d.PeekKind() == '}' && skip(d) }

func skip(d *jsontext.Decoder) bool {
	_, err := d.ReadToken()
	return err == nil
}

func (r *RunRequest) plainField(name string, d *jsontext.Decoder) bool {
	switch name {
	case "command":
		return plainText(d, &r.Command, math.MaxInt)
	case "id":
		return plainText(d, &r.ID, 64)
	case "description":
		return plainText(d, &r.Description, 1000)
	case "dir":
		return plainText(d, &r.Dir, math.MaxInt)
	case "session":
		return plainText(d, &r.Session, 64)
	case "profile":
		return plainText(d, &r.Profile, math.MaxInt)
	case "stdin":
		return plainText(d, &r.Stdin, math.MaxInt)
	case "timeout_seconds":
		return plainSeconds(d, &r.Timeout)
	case "idle_timeout_seconds":
		return plainSeconds(d, &r.IdleTimeout)
	case "cancel_on_disconnect":
		return plainBool(d, &r.CancelOnDisconnect)
	case "stdin_open":
		return plainBool(d, &r.StdinOpen)
	case "env":
		return plainTexts(d, &r.Env)
	}
	return false
}

// plainText is a text of at most so many bytes: where the schema counts characters, these are
// no fewer.
func plainText(d *jsontext.Decoder, to *string, most int) bool {
	if d.PeekKind() != '"' {
		return false
	}
	text, err := d.ReadToken()
	if err == nil {
		*to = text.String()
	}
	return err == nil && len(*to) <= most
}

func plainTexts(d *jsontext.Decoder, to *map[string]string) bool {
	if !begins(d) {
		return false
	}
	*to = map[string]string{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		key, value := name.String(), ""
		if err != nil || !plainText(d, &value, math.MaxInt) {
			return false
		}
		(*to)[key] = value
	}
	return ends(d)
}

// plainSeconds is a time that both fields of that kind allow.
func plainSeconds(d *jsontext.Decoder, to **float64) bool {
	if d.PeekKind() != '0' {
		return false
	}
	number, err := d.ReadToken()
	if err != nil {
		return false
	}
	seconds, err := number.Float()
	*to = &seconds
	return err == nil && seconds > 0 && seconds <= 31536000
}

func plainBool(d *jsontext.Decoder, to *bool) bool {
	switch d.PeekKind() {
	case 't', 'f':
		*to = d.PeekKind() == 't'
		return skip(d)
	}
	return false
}
