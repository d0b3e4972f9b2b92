package access

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"belljar/cmd/internal/problem"

	"golang.org/x/time/rate"
)

// Guard gives every request an Identity, or refuses it.
type Guard struct {
	Tokens  *Tokens
	Hosts   []string // names and addresses that clients may use for this server, besides those of its machine itself
	Origins []string // such as https://ci.example.com: its pages may call through a proxy
	Log     *slog.Logger

	refused atomic.Int64 // not logged
}

// withoutToken are the paths that probes of a service manager ask for, and that of the page.
var withoutToken = []string{"/healthz", "/readyz", "/ui"}

// Wrap is next behind the guard.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	origins, lines := http.NewCrossOriginProtection(), rate.NewLimiter(rate.Every(time.Second), 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		no := g.refuseHost(r)
		if no == nil {
			no = g.refuseOrigin(origins, r)
		}
		var who proof
		if no == nil {
			who, no = g.identify(r)
		}
		if no != nil {
			g.log(lines, r, no, who.Identity)
			no.Write(w)
			return
		}
		ctx, done := g.Tokens.untilEnded(r.Context(), who)
		defer done()
		next.ServeHTTP(w, r.WithContext(With(ctx, who.Identity)))
	})
}

// refuseOrigin refuses what a page of another site makes a browser send. It is as strict
// with GET: a WebSocket begins with one.
func (g *Guard) refuseOrigin(origins *http.CrossOriginProtection, r *http.Request) *problem.Problem {
	if slices.Contains(g.Origins, r.Header.Get("Origin")) && len(r.Header["Origin"]) == 1 {
		return nil
	}
	changing := *r
	changing.Method = http.MethodPost
	if origins.Check(&changing) == nil {
		return nil
	}
	return problem.New(problem.Forbidden, "the request comes from a page of another site", "add that page's origin to serve.origins if it may call this server")
}

// isPublic reports whether a request needs no token: a probe's, and those for the files of
// the page at /ui, which itself asks for the token.
func isPublic(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(slices.Contains(withoutToken, r.URL.Path) || strings.HasPrefix(r.URL.Path, "/ui/") && path.Clean(r.URL.Path) == strings.TrimSuffix(r.URL.Path, "/"))
}

// identify is who calls: by a token, by a client certificate, or by the socket.
func (g *Guard) identify(r *http.Request) (proof, *problem.Problem) {
	if isPublic(r) {
		return proof{}, nil
	}
	if header := r.Header.Values("Authorization"); len(header) > 0 {
		token, ok := bearerToken(header)
		if !ok {
			return proof{}, problem.New(problem.Unauthorized, "the header Authorization has no bearer token", "send Authorization: Bearer TOKEN, once")
		}
		again := func(now time.Time) (credential, error) { return g.Tokens.bearer(token, now) }
		c, err := again(time.Now())
		if err != nil {
			return proof{Identity: c.Identity}, problem.New(problem.Unauthorized, err.Error(), "ask for a token of this server's serve.token_file")
		}
		return proof{c.Identity, c.expires, again}, nil
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return g.certified(r.TLS.VerifiedChains[0][0])
	}
	if overUnix(r) {
		return proof{Identity: Local}, nil
	}
	return proof{}, problem.New(problem.Unauthorized, "a token is needed", "send Authorization: Bearer TOKEN")
}

// certified is who has a client certificate. It may have expired since the connection began.
func (g *Guard) certified(cert *x509.Certificate) (proof, *problem.Problem) {
	again := func(now time.Time) (credential, error) {
		c, err := g.Tokens.certificate(cert.Subject.CommonName, now)
		if c.expires.IsZero() || cert.NotAfter.Before(c.expires) {
			c.expires = cert.NotAfter
		}
		return c, err
	}
	c, err := again(time.Now())
	switch {
	case time.Now().After(cert.NotAfter):
		return proof{Identity: c.Identity}, problem.New(problem.Unauthorized, "the client certificate has expired", "connect with a new one")
	case errors.Is(err, errExpired):
		return proof{Identity: c.Identity}, problem.New(problem.Unauthorized, "the certificate's entry in the token file has expired", "ask for a later date")
	case err != nil:
		return proof{}, problem.New(problem.Forbidden, "the client certificate belongs to no one known", "add an entry with its name as cert_cn to serve.token_file")
	}
	return proof{c.Identity, c.expires, again}, nil
}

// bearerToken is the token of the header, which must occur once. The scheme's case does
// not matter (RFC 9110, 11.1).
func bearerToken(header []string) (string, bool) {
	if len(header) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	token = strings.Trim(token, " ")
	ok := strings.EqualFold(scheme, "Bearer") && len(token) <= maxToken && tokenChars.MatchString(token)
	return token, ok
}

// log logs at most one refusal a second: strangers must not fill a disk.
func (g *Guard) log(lines *rate.Limiter, r *http.Request, no *problem.Problem, who Identity) {
	if !lines.Allow() {
		g.refused.Add(1)
		return
	}
	g.logger().Warn("refused a request", "why", no.Detail, "status", no.Status, "token", who.Name, "remote", r.RemoteAddr, "others_refused", g.refused.Swap(0))
}

func (g *Guard) logger() *slog.Logger {
	if g.Log == nil {
		return slog.Default()
	}
	return g.Log
}
