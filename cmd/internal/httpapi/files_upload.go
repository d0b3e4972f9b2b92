package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/owned"
	"belljar/cmd/internal/problem"
	"belljar/internal/archive"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

type putFileInput struct {
	FilePath
	Tar  bool   `query:"tar" doc:"The body is a tar archive, to be unpacked into the directory of that path."`
	Mode string `query:"mode" pattern:"^0?[0-7]{3}$" doc:"The file's permissions in octal; by default 0644."`
}

// maxArchive is more than the largest archive has: package archive counts what is in it.
const maxArchive = 2 * archive.MaxBytes

func (s *Server) putFile(ctx context.Context, in *putFileInput) (*huma.StreamResponse, error) {
	done := s.Owners.Use(in.Name)
	at, err := s.own().At(ctx, access.Run, in.Name, in.path)
	if err != nil {
		done()
		return nil, problem.Of(err)
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		defer done()
		r, w := humago.Unwrap(h)
		body := &upload{rc: http.NewResponseController(w)}
		defer body.done()
		err := s.receive(w, r, at, in, body)
		if body.cut {
			w.Header().Set("Connection", "close")
		}
		if err != nil {
			s.uploadProblem(r.Context(), in.Name, body, err).Write(w)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}}, nil
}

// receive writes the body into the session.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, at sandbox.SessionPath, in *putFileInput, body *upload) error {
	mode, err := owned.ParseMode(in.Mode)
	switch {
	case err != nil:
		return err
	case in.Tar:
		access.LimitBody(w, r, maxArchive)
	case r.ContentLength < 0:
		return problem.New(problem.LengthRequired, "the file's size is not known", "send Content-Length, or a tar archive: ?tar=1")
	default:
		access.LimitBody(w, r, archive.MaxBytes)
	}
	if body.from = r.Body; in.Tar {
		return s.Files.WriteTar(r.Context(), at, body)
	}
	if r.ContentLength > archive.MaxBytes {
		return &http.MaxBytesError{Limit: archive.MaxBytes}
	}
	return s.Files.WriteFile(r.Context(), at, mode, r.ContentLength, body)
}

// uploadProblem is why an upload changed nothing. A body that is cut is the caller's doing, as is one that
// comes too slowly, which its own error says.
func (s *Server) uploadProblem(ctx context.Context, name string, body *upload, err error) *problem.Problem {
	large, isLarge := errors.AsType[*http.MaxBytesError](errors.Join(body.failed, err))
	said, isSaid := errors.AsType[*problem.Problem](body.failed)
	switch {
	case isLarge:
		return problem.Of(large)
	case isSaid:
		return said
	case body.failed != nil:
		return problem.Of(sandboxInvalid("send it again", "the body ended early"))
	}
	return s.own().FileProblem(ctx, name, err)
}

// upload is a body that a Runner can give up. How long each read has is the listener's to say.
type upload struct {
	from   io.Reader
	rc     *http.ResponseController
	mu     sync.Mutex
	ended  bool  // no one reads it any more
	failed error // before that

	// Once it was read to its end, net/http reads on, to see the client leave: a deadline that it meets then cancels all later requests
	// of the connection, too.
	over bool
	cut  bool // a deadline may have been before it was seen that it is over
}

func (u *upload) Read(p []byte) (int, error) {
	if u.isEnded() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := u.from.Read(p)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = err != nil
	if u.over && !errors.Is(err, io.EOF) && !u.ended {
		u.failed = err
	}
	return n, err
}

func (u *upload) isEnded() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// SetReadDeadline ends the Read that no one waits for.
func (u *upload) SetReadDeadline(t time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !t.IsZero() {
		u.ended = true
		if u.over {
			return nil
		}
		u.cut = true
	}
	return u.rc.SetReadDeadline(t)
}

func (u *upload) done() { u.rc.SetReadDeadline(time.Time{}) }
