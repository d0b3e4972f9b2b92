package mcpapi

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/owned"
	"belljar/sandbox"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Server has the tools. Its fields are set before its first use.
type Server struct {
	Book      *executions.Book
	Owners    *executions.Owners
	Sessions  sandbox.Sessions
	Files     sandbox.Files
	Profiles  func() map[string]sandbox.Profile
	Profile   string                                                       // that commands run with; "" is the default one
	Approvals *approvals.Approvals                                         // the Runner's Approver
	Describe  func(p sandbox.Profile) string                               // what a model is told about shell_run; nil is a short text
	Fetch     func(ctx context.Context, session string, starts bool) error // see owned.Things; may be nil
	Version   string
	Log       *slog.Logger

	once   sync.Once
	ctx    context.Context // of all calls
	cancel context.CancelCauseFunc
	all    sync.WaitGroup
	key    []byte // of promises

	mu      sync.Mutex
	servers map[string]*described // by the caller's name
}

var errClosing = errors.New("belljar is shutting down")

// open makes what the zero Server lacks.
func (s *Server) open() {
	s.once.Do(func() {
		s.ctx, s.cancel = context.WithCancelCause(context.Background())
		s.key = newKey()
		s.servers = map[string]*described{}
	})
}

// Close cancels all calls and waits for their end. The commands of canceled calls are killed;
// those that outlived their calls are the Book's.
func (s *Server) Close() {
	s.open()
	s.mu.Lock()
	s.cancel(errClosing)
	servers := s.servers
	s.servers = map[string]*described{}
	s.mu.Unlock()
	for _, m := range servers {
		for session := range m.Sessions() {
			session.Close()
		}
	}
	s.all.Wait()
}

// own is what callers may use.
func (s *Server) own() owned.Things {
	return owned.Things{Book: s.Book, Owners: s.Owners, Sessions: s.Sessions, Files: s.Files, Profiles: s.Profiles, FrontEnd: frontEnd, Fetch: s.Fetch}
}

const frontEnd = "mcp"

// described is a server of the protocol, and what it says of shell_run.
type described struct {
	*mcp.Server
	text string
}

// server is the caller's: its sessions are counted. A profile that was changed is described
// again, and clients are told.
func (s *Server) server(who access.Identity) *described {
	s.open()
	text := s.describe()
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.servers[who.Name]
	switch {
	case d == nil:
		d = &described{s.newServer(text), text}
		s.servers[who.Name] = d
	case d.text != text:
		s.addRun(d.Server, text)
		d.text = text
	}
	return d
}

func (s *Server) newServer(text string) *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "belljar", Title: "belljar", Version: s.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Logger:       s.protocolLog(),
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }, // each caller has its own tools and texts
	})
	s.addRun(m, text)
	s.addShell(m)
	s.addSessions(m)
	s.addFiles(m)
	s.addPolicy(m)
	return m
}

const instructions = "Commands run in a locked-down container. A command without a session has a container of its own, which is gone with it; " +
	"those of one session share files and processes. A command that fails is an ordinary answer: read its status, exit code and output."

func (s *Server) describe() string {
	if s.Describe == nil {
		return "Run a shell script in a locked-down container, and see its output and how it ended."
	}
	name := s.Profile
	if name == "" {
		name = sandbox.DefaultProfile
	}
	return s.Describe(s.Profiles()[name])
}

// protocolLog is for what goes wrong in the protocol. What the SDK tells of every session and
// request is left out.
func (s *Server) protocolLog() *slog.Logger {
	return slog.New(onlyErrors{s.Log.Handler()})
}

type onlyErrors struct{ slog.Handler }

func (h onlyErrors) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && h.Handler.Enabled(ctx, l)
}
