package httpapi

import (
	"io/fs"
	"net/http"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/internal/filemode"
	"belljar/sandbox"
)

// entry is a file as lists have it.
type entry struct {
	Name     string    `json:"name"`
	Type     string    `json:"type" enum:"file,directory,link,fifo,socket,device"`
	Size     int64     `json:"size"`
	Mode     string    `json:"mode" doc:"In octal, as chmod(1) has it."`
	Modified time.Time `json:"modified"`
}

// entries are those of a directory.
type entries struct {
	Entries []entry `json:"entries"`
}

func entryOf(f fs.FileInfo) entry {
	return entry{f.Name(), filemode.Type(f.Mode()), f.Size(), filemode.Octal(f.Mode()), f.ModTime()}
}

// download is a body that begins with its first byte: until then, a problem can be
// answered instead.
type download struct {
	patientWriter
	media string
	begun bool
}

func newDownload(w http.ResponseWriter) *download {
	return &download{patientWriter: patientWriter{w: w, rc: http.NewResponseController(w)}}
}

func (d *download) begin() {
	if !d.begun {
		d.begun = true
		head(d.w, d.media)
		d.w.WriteHeader(http.StatusOK)
	}
}

func (d *download) Write(p []byte) (int, error) {
	d.begin()
	return d.patientWriter.Write(p)
}

// end completes a body, which may be empty.
func (d *download) end() error {
	d.begin()
	return nil
}

// canBeWhole refuses HTTP/1.0. There the end of the connection ends the body, so that a file that was cut looks
// whole, also to a proxy, which passes it on as such.
func (d *download) canBeWhole(r *http.Request) error {
	if r.ProtoAtLeast(1, 1) {
		return nil
	}
	d.w.Header().Set("Upgrade", "HTTP/1.1")
	p := problem.New(string(sandbox.CauseInvalid), "by HTTP/1.0, a file that is cut looks whole", "ask for it by HTTP/1.1; with nginx in between, set proxy_http_version 1.1")
	p.Status, p.Title = http.StatusUpgradeRequired, http.StatusText(http.StatusUpgradeRequired)
	return p
}

// done takes back the deadline, which is the connection's.
func (d *download) done() { d.rc.SetWriteDeadline(time.Time{}) }

// json sends a value as a line.
func (d *download) json(v any) error {
	text, err := sandbox.JSON(v)
	if err == nil {
		_, err = d.Write(append(text, '\n'))
	}
	return err
}

func (d *download) entries(list []fs.FileInfo) error {
	all := entries{[]entry{}}
	for _, f := range list {
		all.Entries = append(all.Entries, entryOf(f))
	}
	d.media = "application/json"
	return d.json(all)
}
