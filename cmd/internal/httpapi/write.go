package httpapi

import (
	"context"
	"net/http"
	"time"

	"belljar/cmd/internal/executions"
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
	if status != http.StatusOK { // an answer that has begun has that
		w.WriteHeader(status)
	}
	w.Write(append(text, '\n')) // a caller that left needs no answer
}

// untilEnd waits for an execution's end, or for that of ctx. From heartbeat after the request on, the
// answer has an empty line at each: a proxy ends what is silent, and JSON may begin with them.
func untilEnd(ctx context.Context, w http.ResponseWriter, x *executions.Execution, asked time.Time) (begun bool, err error) {
	beat := time.NewTimer(time.Until(asked.Add(heartbeat)))
	defer beat.Stop()
	out := &patientWriter{w: w, rc: http.NewResponseController(w)}
	for {
		select {
		case <-x.Done():
			return begun, nil
		case <-ctx.Done():
			return begun, ctx.Err()
		case <-beat.C:
		}
		head(w, "application/json")
		begun = true
		if _, err = out.Write([]byte("\n")); err == nil {
			err = out.Flush()
		}
		if err != nil {
			return begun, err
		}
		beat.Reset(heartbeat)
	}
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
