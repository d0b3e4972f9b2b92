package access

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// What a token began ends with it, also a stream or a terminal that stays open for hours.
func TestRequestsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	const before = "tokens: [{name: ci, token: " + secret + ", scopes: [run, approve], profiles: [default, build]}]"
	for name, test := range map[string]struct {
		after string
		ends  bool
	}{
		"the same":           {before, false},
		"another's is added": {"tokens: [{name: new, token: " + other + ", scopes: [run]}, {name: ci, token: " + secret + ", scopes: [approve, run], profiles: [build, default]}]", false},
		"more scopes":        {"tokens: [{name: ci, token: " + secret + ", scopes: [admin], profiles: ['*']}]", false},
		"it is gone":         {"tokens: [{name: ci, token: " + other + ", scopes: [run, approve], profiles: [default, build]}]", true},
		"another name":       {"tokens: [{name: cd, token: " + secret + ", scopes: [run, approve], profiles: [default, build]}]", true},
		"fewer scopes":       {"tokens: [{name: ci, token: " + secret + ", scopes: [run], profiles: [default, build]}]", true},
		"fewer profiles":     {"tokens: [{name: ci, token: " + secret + ", scopes: [run, approve], profiles: [default]}]", true},
		"it has expired":     {"tokens: [{name: ci, token: " + secret + ", scopes: [run, approve], profiles: [default, build], expires: 2020-01-01T00:00:00Z}]", true},
		"a broken file":      {"tokens: [", false},
	} {
		file := write(t, before)
		tokens := &Tokens{}
		if err := tokens.Load(file); err != nil {
			t.Fatal(err)
		}
		guard := &Guard{Tokens: tokens, Log: slog.New(slog.DiscardHandler)}
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/x", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		guard.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := os.WriteFile(file, []byte(test.after), 0o600); err != nil {
				t.Error(err)
			}
			_ = tokens.Load(file)
			if ended := r.Context().Err() != nil; ended != test.ends {
				t.Errorf("%s: the request ends: %v", name, ended)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
		if n := len(tokens.open.all); n != 0 {
			t.Errorf("%s: %d requests are remembered", name, n)
		}
	}
}

// A request ends when its token expires, or its certificate.
func TestRequestsEndInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := load(t, "tokens: [{name: ci, token: "+secret+", scopes: [run], expires: "+time.Now().Add(time.Hour).Format(time.RFC3339)+"}, {name: node, cert_cn: node, scopes: [run]}]")
		guard := &Guard{Tokens: tokens, Log: slog.New(slog.DiscardHandler)}
		token := httptest.NewRequest(http.MethodGet, "http://localhost/v1/x", nil)
		token.Header.Set("Authorization", "Bearer "+secret)
		byToken, no := guard.identify(token)
		byCert, not := guard.certified(&x509.Certificate{Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour)})
		if no != nil || not != nil {
			t.Fatal(no, not)
		}
		for _, p := range []proof{byToken, byCert} {
			ctx, done := tokens.untilEnded(t.Context(), p)
			time.Sleep(20 * time.Minute)
			synctest.Wait()
			if ctx.Err() != nil {
				t.Errorf("%s: it ends too early", p.Name)
			}
			done()
		}
		ctx, done := tokens.untilEnded(t.Context(), byCert)
		defer done()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("it outlives the certificate")
		}
	})
}

// Once a bug: a request that was open kept the expiry that its token had when it came.
func TestExpiryChanges(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, test := range map[string]struct {
		before, after, cert, ends time.Duration // zero: never
	}{
		"earlier":                   {before: hour, after: 10 * time.Minute, ends: 10 * time.Minute},
		"later":                     {before: 10 * time.Minute, after: hour, ends: hour},
		"never":                     {before: 10 * time.Minute},
		"from never on":             {after: hour, ends: hour},
		"a certificate":             {before: hour, after: 10 * time.Minute, cert: 2 * hour, ends: 10 * time.Minute},
		"a certificate ends before": {before: 10 * time.Minute, after: 3 * hour, cert: 2 * hour, ends: 2 * hour},
		"only a certificate's":      {before: 10 * time.Minute, cert: 2 * hour, ends: 2 * hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			text := func(expires time.Duration) string {
				line := "tokens: [{name: ci, token: " + secret + ", scopes: [run]"
				if test.cert > 0 {
					line = "tokens: [{name: ci, cert_cn: node, scopes: [run]"
				}
				if expires > 0 {
					line += ", expires: " + begun.Add(expires).Format(time.RFC3339)
				}
				return line + "}]"
			}
			tokens := load(t, text(test.before))
			guard := &Guard{Tokens: tokens, Log: slog.New(slog.DiscardHandler)}
			r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/x", nil)
			r.Header.Set("Authorization", "Bearer "+secret)
			p, no := guard.identify(r)
			if test.cert > 0 {
				p, no = guard.certified(&x509.Certificate{Subject: pkix.Name{CommonName: "node"}, NotAfter: begun.Add(test.cert)})
			}
			if no != nil {
				t.Fatal(no)
			}
			ctx, done := tokens.untilEnded(t.Context(), p)
			defer done()
			if err := tokens.Load(write(t, text(test.after))); err != nil {
				t.Fatal(err)
			}
			ended := make(chan time.Duration, 1)
			defer context.AfterFunc(ctx, func() { ended <- time.Since(begun) })()
			time.Sleep(4 * hour)
			synctest.Wait()
			var at time.Duration
			select {
			case at = <-ended:
			default:
			}
			if at != test.ends {
				t.Errorf("%s: it ends after %v, want %v", name, at, test.ends)
			}
		})
	}
}
