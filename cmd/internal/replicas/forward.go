package replicas

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
)

const (
	// mark is the header of a request that was sent on, with the name of the replica that did and its proof. Such a one goes no
	// further.
	mark = "Belljar-Replica"

	// addressee is the header with the name of the replica that the request is for: an address may be another one's by now.
	addressee = "Belljar-Replica-For"

	// dialTime bounds how long a replica may take to accept a connection, and to prove who it is.
	dialTime = 3 * time.Second
)

var (
	// errUnreached is that a replica could not be reached, so that it has nothing of the request.
	errUnreached = errors.New("the replica does not answer")
	// errMoved is that a replica has done nothing, as the request is for another one.
	errMoved = errors.New("the request is for another replica")
)

// Sent reports whether another replica sent the request on: Wrap lets no other one have the header.
func Sent(h http.Header) bool { return h.Get(mark) != "" }

// newTransport connects to replicas. A connection is used once: one that waits for the next request may be closed
// by a replica that ends just when that is sent, and then no one knew whether it began.
func (r *Replicas) newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}}
	t := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: time.Minute}
	if r.Secure != nil {
		t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTime)
			defer cancel()
			config, err := r.Secure()
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
		}
	}
	t.Protocols = &http.Protocols{}
	t.Protocols.SetHTTP1(true)
	return t
}

// attempt is one sending of a request. It knows whether anything of it went out.
type attempt struct {
	err       error
	connected bool
	body      *counted // nil without one
}

// again reports whether the request can be sent once more.
func (a *attempt) again(req *http.Request) bool {
	return a.body == nil || a.body.n.Load() == 0 || req.GetBody != nil
}

// counted is a body, and how much was read of it.
type counted struct {
	io.ReadCloser
	n atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Close leaves the body to the server: it may have to be sent again.
func (c *counted) Close() error { return nil }

// send sends a request on, and the answer back. With an error nothing was answered, and nothing began if it is errUnreached or
// errMoved. A connection that breaks later cuts the answer. heard is called with what the replica answers; where the request can be sent
// again, its error is instead of that.
func (r *Replicas) send(w http.ResponseWriter, req *http.Request, to *peer, heard func(*http.Response) error) error {
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	defer context.AfterFunc(to.life, func() { cancel(context.Cause(to.life)) })()
	a := &attempt{}
	out := req.WithContext(ctx)
	if req.GetBody != nil { // it may have been sent before
		out.Body, _ = req.GetBody()
	} else if req.Body != nil && req.Body != http.NoBody {
		access.LimitBody(w, out, math.MaxInt64) // the other replica has its own limit
	}
	if req.Body != nil && req.Body != http.NoBody {
		a.body = &counted{ReadCloser: out.Body}
		out.Body = a.body
	}
	(&httputil.ReverseProxy{
		Transport:     roundTrip{r.transport, a},
		FlushInterval: -1,
		Rewrite:       func(p *httputil.ProxyRequest) { r.rewrite(p, to) },
		ModifyResponse: func(answer *http.Response) error {
			switch {
			case answer.StatusCode != http.StatusMisdirectedRequest:
				err := heard(answer)
				if answer.Header.Del(mark); a.again(req) { // it is for replicas only
					return err
				}
				return nil
			case answer.Header.Get(mark) != "": // else it may have another request with the same key
				return errNever
			}
			return errMoved
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { a.err = err },
	}).ServeHTTP(w, out)
	switch {
	case a.err == nil:
		return nil
	case errors.Is(a.err, errMoved) && a.again(req):
		return a.err
	case !a.connected && req.Context().Err() != nil:
		return errUnreached
	case !a.connected:
		r.Log.Warn("a replica does not answer", "replica", to.name, "address", to.address.String(), "error", a.err)
		if errors.Is(context.Cause(ctx), errGone) {
			return fmt.Errorf("%w: %w", errUnreached, errGone)
		}
		return fmt.Errorf("%w: %w", errUnreached, a.err)
	case errors.Is(context.Cause(ctx), errGone):
		return errGone
	}
	panic(http.ErrAbortHandler) // whether it began is not known: the caller's connection breaks, as it would with one replica
}

// roundTrip notes that a connection is there, and is who it should be: from then on, the request may have arrived.
type roundTrip struct {
	*http.Transport
	*attempt
}

// RoundTrip implements http.RoundTripper.
func (t roundTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	noted := httptrace.WithClientTrace(plain{req.Context()}, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { t.connected = true }})
	return t.Transport.RoundTrip(req.WithContext(noted))
}

// plain is a context without values: the proxy would send the caller what is between two replicas, such as 100 Continue.
type plain struct{ context.Context }

// Value implements context.Context.
func (plain) Value(any) any { return nil }

// via is the header with the protocol by which a request that is sent on came (RFC 9110, 7.6.3).
const via = "Via"

// rewrite has the other replica get what this one got, by HTTP/1.1. What a browser says of the page that a request is from is judged here,
// where its Host is the one that the page knows.
func (r *Replicas) rewrite(p *httputil.ProxyRequest, to *peer) {
	p.Out.URL.RawQuery = p.In.URL.RawQuery // the proxy drops what it cannot read, and then no one refuses it
	p.Out.Header.Del("Origin")
	p.Out.Header.Del(via)
	for name := range p.Out.Header {
		if strings.HasPrefix(name, "Sec-Fetch-") {
			p.Out.Header.Del(name)
		}
	}
	if !p.In.ProtoAtLeast(1, 1) {
		p.Out.Header.Set(via, "1.0 "+r.Name)
	}
	r.address(p.Out, to)
}

// asItCame is a request that was sent on, of the protocol by which its caller sent it: what ends with the connection is cut there
// without a sign.
func asItCame(req *http.Request) *http.Request {
	if !Sent(req.Header) || !strings.HasPrefix(req.Header.Get(via), "1.0 ") {
		return req
	}
	old := *req
	old.Proto, old.ProtoMajor, old.ProtoMinor = "HTTP/1.0", 1, 0
	return &old
}

// address makes a request one for a replica, with the caller's own credentials.
func (r *Replicas) address(out *http.Request, to *peer) {
	out.URL = &url.URL{Scheme: "http", Host: to.address.String(), Path: out.URL.Path, RawPath: out.URL.RawPath, RawQuery: out.URL.RawQuery}
	if r.Secure != nil {
		out.URL.Scheme = "https"
	}
	out.Host = to.address.String() // which every server takes for its own name
	out.Header.Set(mark, r.Name+" "+r.proof)
	out.Header.Set(addressee, to.name)
	if out.ContentLength != 0 && out.Body != nil && out.Body != http.NoBody {
		out.Header.Set("Expect", "100-continue") // a body goes out only once the replica wants it
	}
}

// gone answers about what a replica had that has ended.
func gone(w http.ResponseWriter, what string) {
	problem.New(problem.Gone, what, "its replica ended or was replaced: what it had is not known any more").Write(w)
}

// unreached answers where a replica does not.
func unreached(w http.ResponseWriter, name string) {
	unavailable("replica "+name+" does not answer", "send the request again: what runs there may go on").Write(w)
}
