package images

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/docker/docker/client"

	"belljar/sandbox"
)

// errBrokenAnswer marks an engine's answer that ended early.
var errBrokenAnswer = errors.New("the engine's answer is incomplete")

// refuse is an image error.
func refuse(err error, hint, format string, args ...any) error {
	return &sandbox.Error{Cause: sandbox.CauseImage, Message: fmt.Sprintf(format, args...), Hint: hint, Err: err}
}

// answered distinguishes an answer of the engine from no answer, which is not
// the image's fault: http.Client wraps all its own failures in a *url.Error.
func answered(err error) bool {
	_, transport := errors.AsType[*url.Error](err)
	return !transport && !client.IsErrConnectionFailed(err) && !errors.Is(err, errBrokenAnswer) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// maxQuote is how much of an untrusted text is shown, in bytes.
const maxQuote = 1024

// quoted is an error with a text from a registry or a tool: it is shown on
// terminals, so it is shortened and contains no control characters.
type quoted struct{ error }

func (e quoted) Unwrap() error { return e.error }

func (e quoted) Error() string {
	text := e.error.Error()
	if len(text) > maxQuote {
		text = strings.ToValidUTF8(text[:maxQuote], "") + "…"
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text))
}
