package client

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"belljar/internal/filemode"
	"belljar/internal/names"
	"belljar/sandbox"
)

// file is the request about one of a session's files. Its path is one escaped element:
// nothing between here and the sidecar then reads a ".." or a "//" in it.
func file(method string, at sandbox.SessionPath, query url.Values) (request, error) {
	if err := names.CheckSession(at.Session); err != nil {
		return request{}, err
	}
	escaped := strings.ReplaceAll(url.PathEscape(at.Path), ".", "%2E")
	return request{method: method, path: "/v1/sessions/" + url.PathEscape(at.Session) + "/files/" + escaped, query: query}, nil
}

// ReadFile implements sandbox.Files.
func (c *Client) ReadFile(ctx context.Context, from sandbox.SessionPath, to io.Writer) error {
	return c.download(ctx, from, nil, to)
}

// ReadTar implements sandbox.Files.
func (c *Client) ReadTar(ctx context.Context, from sandbox.SessionPath, to io.Writer) error {
	return c.download(ctx, from, url.Values{"tar": {"1"}}, to)
}

func (c *Client) download(ctx context.Context, from sandbox.SessionPath, query url.Values, to io.Writer) error {
	r, err := file(http.MethodGet, from, query)
	if err != nil {
		return err
	}
	answer, err := c.do(ctx, r)
	if err != nil {
		return c.told(ctx, err)
	}
	defer answer.Body.Close()
	w := &writing{to: to}
	if _, err := io.Copy(w, answer.Body); err != nil && w.err == nil {
		return c.told(ctx, unreachable{error: err})
	}
	return w.err
}

// writing remembers that the failure is the writer's.
type writing struct {
	to  io.Writer
	err error
}

func (w *writing) Write(p []byte) (n int, err error) {
	n, w.err = w.to.Write(p)
	return n, w.err
}

// WriteFile implements sandbox.Files.
func (c *Client) WriteFile(ctx context.Context, to sandbox.SessionPath, mode fs.FileMode, size int64, from io.Reader) error {
	return c.upload(ctx, to, url.Values{"mode": {fmt.Sprintf("%04o", mode.Perm())}}, size, from)
}

// WriteTar implements sandbox.Files.
func (c *Client) WriteTar(ctx context.Context, directory sandbox.SessionPath, from io.Reader) error {
	return c.upload(ctx, directory, url.Values{"tar": {"1"}}, -1, from)
}

// upload sends a body once: it cannot be read again.
func (c *Client) upload(ctx context.Context, to sandbox.SessionPath, query url.Values, size int64, from io.Reader) error {
	r, err := file(http.MethodPut, to, query)
	if err != nil {
		return err
	}
	source := &reading{from: from}
	r.stream, r.size = source, size
	r.header = http.Header{"Content-Type": {"application/octet-stream"}}
	err = c.told(ctx, c.call(ctx, r, nil))
	if failed := source.failure(); failed != nil {
		return failed
	}
	return err
}

// RemoveFile implements sandbox.Files.
func (c *Client) RemoveFile(ctx context.Context, path sandbox.SessionPath) error {
	r, err := file(http.MethodDelete, path, nil)
	if err != nil {
		return err
	}
	return c.told(ctx, c.call(ctx, r, nil))
}

// ListFiles implements sandbox.Files.
func (c *Client) ListFiles(ctx context.Context, path sandbox.SessionPath) ([]fs.FileInfo, error) {
	r, err := file(http.MethodGet, path, url.Values{"list": {"1"}})
	if err != nil {
		return nil, err
	}
	var all struct {
		Entries []entry `json:"entries"`
	}
	if err := c.get(ctx, r, &all); err != nil {
		return nil, err
	}
	list := make([]fs.FileInfo, len(all.Entries))
	for i, e := range all.Entries {
		if _, err := strconv.ParseUint(e.Bits, 8, 32); err != nil {
			return nil, c.garbage("a file's mode " + strconv.Quote(e.Bits))
		}
		list[i] = e
	}
	return list, nil
}

// entry is a file as the API lists it.
type entry struct {
	Called  string    `json:"name"`
	Type    string    `json:"type"`
	Bytes   int64     `json:"size"`
	Bits    string    `json:"mode"` // octal
	Changed time.Time `json:"modified"`
}

func (e entry) Name() string       { return e.Called }
func (e entry) Size() int64        { return e.Bytes }
func (e entry) ModTime() time.Time { return e.Changed }
func (e entry) IsDir() bool        { return e.Mode().IsDir() }
func (e entry) Sys() any           { return nil }

func (e entry) Mode() fs.FileMode {
	bits, _ := strconv.ParseUint(e.Bits, 8, 32)
	return filemode.Of(e.Type, uint32(bits))
}
