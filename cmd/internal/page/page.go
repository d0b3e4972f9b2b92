// Package page is the web page at /ui: what waits for a person, what runs, how it ended.
//
// The one rule: the page has no logic of its own. It reads /v1 as any client does, with the
// token that a person types, and what it shows of a command is text, never markup.
//
//	mux.Handle("GET /ui/", page.Handler())
//
// # Design
//
// The files are embedded and served without a build step. They say nothing that needs a
// token, so they need none; the guard's checks of Host and Origin still come first. The
// policy of policy allows the page its own files and /v1, and nothing else: no markup that
// gets into the page by mistake can load, send or run anything.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"belljar/cmd/internal/problem"
)

//go:embed files
var embedded embed.FS

// policy is the Content-Security-Policy. Trusted types make a script that assigns markup fail.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// media are the types of the files, also where the machine's table has others.
var media = map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

type file struct {
	media, tag string
	text       []byte
}

// Handler serves the page at /ui/, and sends there from /ui.
func Handler() http.Handler {
	files := read()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // with the tag: a new belljar has new files
		name, below := strings.CutPrefix(r.URL.Path, "/ui/")
		if !below {
			h.Set("Location", "ui/") // relative: a proxy may have a path before it
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
		if name == "" {
			name = "index.html"
		}
		f, known := files[name]
		if !known {
			problem.New(problem.NotFound, fmt.Sprintf("there is no %.200q", r.URL.Path), "open /ui/").Write(w)
			return
		}
		h.Set("Content-Type", f.media)
		h.Set("ETag", f.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.text))
	})
}

// read is what is embedded, by name.
func read() map[string]file {
	files := map[string]file{}
	entries, err := embedded.ReadDir("files")
	for _, e := range entries {
		var text []byte
		if text, err = embedded.ReadFile("files/" + e.Name()); err != nil {
			break
		}
		sum := sha256.Sum256(text)
		files[e.Name()] = file{
			media: mime.FormatMediaType(media[path.Ext(e.Name())], map[string]string{"charset": "utf-8"}),
			tag:   `"` + hex.EncodeToString(sum[:12]) + `"`, text: text,
		}
	}
	if err != nil {
		panic(err) // the program itself is damaged
	}
	return files
}
