package page

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

func TestHandler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path   string
		status int
		media  string
	}{
		{"/ui", 308, ""},
		{"/ui/", 200, "text/html; charset=utf-8"},
		{"/ui/index.html", 200, "text/html; charset=utf-8"},
		{"/ui/app.js", 200, "text/javascript; charset=utf-8"},
		{"/ui/page.css", 200, "text/css; charset=utf-8"},
		{"/ui/icon.svg", 200, "image/svg+xml; charset=utf-8"},
		{"/ui/none", 404, "application/problem+json"},
		{"/ui/files/app.js", 404, "application/problem+json"},
		{"/ui/../page.go", 404, "application/problem+json"},
	} {
		w := get(t, c.path)
		if w.Code != c.status || w.Header().Get("Content-Type") != c.media {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Header().Get("Content-Type"))
		}
		for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s: %q", c.path, name, got)
			}
		}
	}
	if at := get(t, "/ui").Header().Get("Location"); at != "ui/" {
		t.Errorf("sent to %q", at)
	}
	if w := get(t, "/ui/app.js", "If-None-Match", get(t, "/ui/app.js").Header().Get("ETag")); w.Code != http.StatusNotModified {
		t.Errorf("the same file again: %d", w.Code)
	}
}

// Every file has a type, and what the files name is one of them: nothing comes from elsewhere.
func TestFiles(t *testing.T) {
	t.Parallel()
	files, used := read(), map[string]bool{"index.html": true}
	names := regexp.MustCompile(`(?:src|href)="([^"#]+)"|from '\./([^']+)'`)
	for name, f := range files {
		if !strings.Contains(f.media, "/") {
			t.Errorf("%s has no type", name)
		}
		for _, m := range names.FindAllStringSubmatch(string(f.text), -1) {
			used[m[1]+m[2]] = true
			if _, known := files[m[1]+m[2]]; !known {
				t.Errorf("%s names %s", name, m[1]+m[2])
			}
		}
	}
	for name := range files {
		if !used[name] {
			t.Errorf("nothing uses %s", name)
		}
	}
}

// The page's policy allows no script or style in the markup, and there are no ways by which
// text could become markup.
func TestNoMarkup(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script[^>]*>[^<]|javascript:|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser|createContextualFragment|setHTML|srcdoc|localStorage|document\.cookie`)
	for name, f := range read() {
		if found := inline.FindString(string(f.text)); found != "" {
			t.Errorf("%s: %q", name, found)
		}
	}
}
