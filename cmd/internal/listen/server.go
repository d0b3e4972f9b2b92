package listen

import (
	"log"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// times bound how long a client may keep others waiting.
type times struct {
	header time.Duration // for a request's header, and a TLS handshake
	idle   time.Duration // between two requests
	body   time.Duration // see body
	stall  time.Duration // for each 64 KiB of an answer
}

var usual = times{header: 5 * time.Second, idle: time.Minute, body: 10 * time.Second, stall: 30 * time.Second}

const maxHeader = 64 << 10

// Server is a server for the handler, which has as long as it likes to answer. Serve
// serves it.
func (l *Listener) Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:                      l.times.steady(handler),
		ReadHeaderTimeout:            l.times.header,
		IdleTimeout:                  l.times.idle,
		MaxHeaderBytes:               maxHeader,
		ConnState:                    track,
		DisableGeneralOptionsHandler: true, // it would answer before the handler checks who asks
		ErrorLog:                     log.New(&lines{log: l.log, limit: rate.NewLimiter(1, 10)}, "", 0),
	}
}

// lines logs what net/http reports, such as failed handshakes. Strangers cause them: more
// than one a second are left out.
type lines struct {
	log   *slog.Logger
	limit *rate.Limiter
}

func (l *lines) Write(text []byte) (int, error) {
	if l.limit.Allow() {
		l.log.Warn(strings.TrimSpace(string(text)))
	}
	return len(text), nil
}
