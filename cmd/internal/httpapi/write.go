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

// writeResult writes a result, which may be large, piece by piece.
func writeResult(w http.ResponseWriter, r sandbox.Result) {
	head(w, "application/json")
	out := &patientWriter{w: w, rc: http.NewResponseController(w)}
	if err := r.WriteJSON(out); err != nil {
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
