package httpapi

import (
	"net/http"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

// The media types of event streams.
const (
	mediaNDJSON = "application/x-ndjson"
	mediaSSE    = "text/event-stream"
	mediaFrames = "application/vnd.belljar.events" // see eventWriter.write
	mediaBytes  = "application/octet-stream"
)

// stallTime is how long a write may take before its reader is cut off.
const stallTime = 30 * time.Second

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := sandbox.JSON(v)
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	head(w, "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n')) // a caller that left needs no answer
}

// writeResult writes a result, which may be large, piece by piece. Where there is no room for it
// the connection is cut: the command has run, and no status of a refusal would say so.
func (s *Server) writeResult(w http.ResponseWriter, r *http.Request, result sandbox.Result, roomy bool) {
	give, err := s.roomForEnd(r.Context(), &result, roomy)
	if err != nil {
		s.Log.Warn("a result could not be sent", "execution", result.ID, "error", err)
		panic(http.ErrAbortHandler)
	}
	defer give()
	head(w, "application/json")
	out := &patientWriter{w: w, rc: http.NewResponseController(w)}
	if err := result.WriteJSON(out); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// described is what GET /v1/executions/{id} says. A result comes last.
type described struct {
	Summary
	Notices []string `json:"notices,omitempty"`
}

// write writes it with the result, piece by piece.
func (d described) write(w http.ResponseWriter, r sandbox.Result) {
	text, err := sandbox.JSON(d)
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	head(w, "application/json")
	out := &patientWriter{w: w, rc: http.NewResponseController(w)}
	_, err = out.Write(append(text[:len(text)-1], `,"result":`...))
	if err == nil {
		err = r.WriteJSON(out)
	}
	if err == nil {
		_, err = out.Write([]byte("}\n"))
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func head(w http.ResponseWriter, media string) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// patientWriter gives each write stallTime.
type patientWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (p *patientWriter) Write(b []byte) (int, error) {
	p.rc.SetWriteDeadline(time.Now().Add(stallTime))
	return p.w.Write(b)
}

func (p *patientWriter) Flush() error {
	p.rc.SetWriteDeadline(time.Now().Add(stallTime))
	return p.rc.Flush()
}
