package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/owned"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/sync/singleflight"
)

// Server answers requests.
type Server struct {
	Book      *executions.Book
	Owners    *executions.Owners
	Sessions  sandbox.Sessions
	Files     sandbox.Files
	Pools     sandbox.Pools
	Profiles  func() map[string]sandbox.Profile
	Approvals *approvals.Approvals
	Images    func(ctx context.Context) ([]Image, error)
	AuditHead func() (AuditHead, error)
	Ready     func(ctx context.Context) error // why commands cannot run now
	Load      func() (running, waiting, asking int)
	Metrics   http.Handler
	Page      http.Handler // at /ui
	Version   string
	Log       *slog.Logger
	MaxBody   int64 // bytes of a request's body
	Replicas  *replicas.Replicas

	results   room // that are answered
	terminals terminals
	readiness singleflight.Group
}

// Handler is the API, and the routes that it has. Every request has an access.Identity
// already.
func (s *Server) Handler() (http.Handler, *http.ServeMux) {
	mux := http.NewServeMux()
	s.register(mux)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.only(access.Metrics, s.Metrics))
	}
	if s.Page != nil {
		mux.Handle("GET /ui", s.Page)
		mux.Handle("GET /ui/", s.Page)
	}
	return notFound(mux), mux
}

// Document is the OpenAPI document, as YAML.
func Document(version string) ([]byte, error) {
	return (&Server{Version: version}).OpenAPI().YAML()
}

// OpenAPI is the document of all operations.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.register(http.NewServeMux()).OpenAPI() }

func (s *Server) register(mux *http.ServeMux) huma.API {
	c := huma.DefaultConfig("belljar", s.Version)
	c.Info.Description = "Run untrusted shell commands in locked-down containers."
	c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", nil
	c.RejectUnknownQueryParameters = true
	c.Formats = strictJSON()
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	c.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[sandbox.Grant](), reflect.TypeFor[grant]())
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	c.Security = []map[string][]string{{"token": {}}}
	api := humago.New(mux, c)
	dir := ""
	if s.Book != nil { // else it is only for its document
		dir = s.Book.Dir
	}
	s.results = newRoom(resultsInMemory)
	api.UseMiddleware(oneMeaning, newLarge(s.MaxBody, dir).wrap)
	s.registerExecutions(api)
	s.registerStreams(api)
	s.registerControls(api)
	s.registerTerminal(api)
	s.registerSessions(api)
	s.registerFiles(api)
	s.registerInfo(api)
	documentRefusals(api.OpenAPI())
	return api
}

func init() {
	huma.NewError = newError
	huma.ValidateStrictCasing = true // else "COMMAND" replaces "command"
}

// unreadable is what huma says with status 500 of a body that it cannot read.
const unreadable = "cannot read request body"

// newError is how huma says no.
func newError(status int, message string, errs ...error) huma.StatusError {
	if message == unreadable {
		err := errors.Join(errs...)
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return problem.Of(large)
		}
		if p, ok := errors.AsType[*problem.Problem](err); ok {
			return p
		}
		status = http.StatusBadRequest // the client sent half of it, or chunks that are none
	}
	p := &problem.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: message, Code: problem.CodeOf(status)}
	if status == http.StatusBadRequest { // a body that cannot be parsed is as wrong as one with a wrong field
		p.Status, p.Title = http.StatusUnprocessableEntity, http.StatusText(http.StatusUnprocessableEntity)
	}
	for _, err := range errs {
		if err == nil {
			continue
		}
		field := problem.Field{Message: err.Error()}
		if d, ok := err.(huma.ErrorDetailer); ok {
			field.Location, field.Message = d.ErrorDetail().Location, d.ErrorDetail().Message
		}
		p.Errors = append(p.Errors, field)
	}
	if len(p.Errors) > 0 {
		p.Detail = message + ": " + p.Errors[0].Message
		if at := p.Errors[0].Location; at != "" {
			p.Detail = message + ": " + at + ": " + p.Errors[0].Message
		}
		p.Hint = "see /openapi.json"
	}
	return p
}

// notFound answers with problems where the mux answers with text.
func notFound(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		probe := &statusOnly{header: http.Header{}}
		h.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", probe.header.Get("Allow"))
			problem.New(problem.NotAllowed, fmt.Sprintf("%s is not for %s", r.URL.Path, r.Method), "use: "+probe.header.Get("Allow")).Write(w)
			return
		}
		problem.New(problem.NotFound, fmt.Sprintf("there is no %.200q", r.URL.Path), "see /openapi.json").Write(w)
	})
}

// statusOnly is a ResponseWriter that keeps status and header.
type statusOnly struct {
	header http.Header
	status int
}

func (w *statusOnly) Header() http.Header         { return w.header }
func (w *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
func (w *statusOnly) WriteHeader(status int)      { w.status = status }

// own is what callers may use.
func (s *Server) own() owned.Things {
	return owned.Things{Book: s.Book, Owners: s.Owners, Sessions: s.Sessions, Files: s.Files, Profiles: s.Profiles, FrontEnd: "http"}
}

// only is access.Need for plain handlers.
func (s *Server) only(scope access.Scope, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := access.Need(r.Context(), scope); err != nil {
			problem.Of(err).Write(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// readyz needs no token, but without one it does not say why: profiles and the engine's
// errors are for those who may see them. Those who ask at the same time, however many, make
// it look once.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	_, why, _ := s.readiness.Do("", func() (any, error) { return nil, s.Ready(context.WithoutCancel(r.Context())) })
	err := sandbox.ErrorOf(why)
	switch {
	case err == nil:
		fmt.Fprintln(w, "ready")
	case access.FromContext(r.Context()).Can(access.Read):
		problem.New(problem.Unavailable, err.Message, err.Hint).Write(w)
	default:
		s.Log.Warn("not ready", "error", err)
		problem.New(problem.Unavailable, "commands cannot run now", "see the sidecar's log").Write(w)
	}
}
