package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// ttyProtocol is the subprotocol of terminals.
const ttyProtocol = "belljar.tty.v1"

const ttyHelp = `A WebSocket with the subprotocol belljar.tty.v1, for an execution with tty and stdin_open.

The server sends binary messages with output, from offset on, and text messages with JSON: {"type":"notice","data"}, and last {"type":"result","result"}. Then it closes the connection with the status 1000. A notice with left_out_bytes says that so many bytes are no longer kept: add them to the offset. To continue after a cut, open it again with the offset of the first byte that you do not have, and after with the seq of the last notice.

The client sends binary messages with what is typed, and text messages with JSON: {"type":"resize","rows","cols"}, {"type":"signal","signal"} and {"type":"eof"}, which ends stdin. A message has at most 64 KiB. Several clients can have the same terminal: all see the output, and what they type is mixed message by message.

The execution goes on when the connection ends, unless its request has cancel_on_disconnect and no one else has the terminal.`

func (s *Server) registerTerminal(api huma.API) {
	text := func(what string) *huma.Param {
		return &huma.Param{Schema: &huma.Schema{Type: huma.TypeString}, Description: what}
	}
	huma.Register(api, huma.Operation{
		OperationID: "open-terminal", Method: http.MethodGet, Path: "/v1/executions/{id}/tty", Summary: "Open an execution's terminal", Description: ttyHelp,
		DefaultStatus: http.StatusSwitchingProtocols, Errors: []int{403, 404, 422, 426, 503},
		Responses: map[string]*huma.Response{"101": {
			Description: "The connection is a WebSocket.",
			Headers:     map[string]*huma.Param{"Upgrade": text("websocket"), "Sec-WebSocket-Protocol": text(ttyProtocol)},
		}},
	}, s.tty)
}

type ttyInput struct {
	OfExecution
	Offset int64  `query:"offset" minimum:"0" doc:"Of the first byte of output that is sent."`
	After  uint64 `query:"after" doc:"Only the notices after the event with this number."`
}

func (s *Server) tty(ctx context.Context, in *ttyInput) (*huma.StreamResponse, error) {
	x, err := s.find(ctx, access.Run, in.ID)
	if err == nil {
		err = x.CheckTerminal()
	}
	if err == nil {
		_, err = x.CheckAfter(in.After)
	}
	if err != nil {
		return nil, problem.Of(err)
	}
	give, err := s.roomForStored(ctx, x)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		defer giveBack(give)
		r, w := humago.Unwrap(h)
		if !hasToken(r.Header, "Upgrade", "websocket") || !hasToken(r.Header, "Sec-WebSocket-Protocol", ttyProtocol) {
			w.Header().Set("Upgrade", "websocket")
			problem.Write(w, http.StatusUpgradeRequired, string(sandbox.CauseInvalid), "a terminal is a WebSocket with the subprotocol "+ttyProtocol, "open it with a WebSocket client, or read /output and send /stdin")
			return
		}
		if !s.terminals.run(func() { s.openTerminal(w, r, &terminal{x: x, offset: in.Offset, after: in.After}) }) {
			problem.New(problem.Unavailable, "the sidecar is shutting down", "read the execution's result").Write(w)
		}
	}}, nil
}

// hasToken reports whether a header with a list has that token.
func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// openTerminal makes the connection a WebSocket and serves it to its end.
func (s *Server) openTerminal(w http.ResponseWriter, r *http.Request, t *terminal) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{ttyProtocol},
		InsecureSkipVerify: true, // access.Guard checked the Origin, and knows serve.origins
		OnPongReceived:     func(context.Context, []byte) { t.seen.Store(time.Now().UnixNano()) },
	})
	if err != nil {
		return // it is answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	t.conn = conn
	leave := t.x.Attach()
	t.leave = sync.OnceFunc(func() { leave(errDisconnected) })
	defer t.leave()
	if err := t.serve(r.Context()); errors.Is(err, errOutput) {
		s.Log.Warn("a terminal was cut", "execution", t.x.ID, "error", err)
	}
}

// terminals are the open ones: net/http forgets a connection that becomes a WebSocket.
type terminals struct {
	mu   sync.Mutex
	over bool
	all  sync.WaitGroup
}

// run serves one, unless they are closed.
func (t *terminals) run(serve func()) bool {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return false
	}
	t.all.Add(1)
	t.mu.Unlock()
	defer t.all.Done()
	serve()
	return true
}

// Close waits for the end of all terminals. They end with their executions; to cancel the
// context of their requests cuts them.
func (s *Server) Close() {
	s.terminals.mu.Lock()
	s.terminals.over = true
	s.terminals.mu.Unlock()
	s.terminals.all.Wait()
}
