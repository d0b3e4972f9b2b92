package mcpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/owned"
	"belljar/cmd/internal/problem"
	"belljar/internal/filemode"
	"belljar/sandbox"
	"belljar/view"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxRead    = 256 << 10 // bytes of a file that one call may ask for
	maxEntries = 500       // of a directory
)

func (s *Server) addFiles(m *mcp.Server) {
	const where = " A session that does not exist is made."
	add(s, m, mcp.Tool{
		Name: "file_read", Title: "Read a file", Description: "Read a part of a file of a session's workspace: as text if it is UTF-8, otherwise in base64." + where,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: no()},
	}, func(p map[string]*jsonschema.Schema) {
		within(p["offset"], 0, 1<<53)
		within(p["max_bytes"], 1, maxRead)
	}, s.readFile)
	add(s, m, mcp.Tool{
		Name: "file_write", Title: "Write a file", Description: "Write a file of a session's workspace, in place of the one that is there. Nothing changes until all has arrived." + where,
		Annotations: &mcp.ToolAnnotations{DestructiveHint: yes(), IdempotentHint: true, OpenWorldHint: no()},
	}, func(p map[string]*jsonschema.Schema) { p["encoding"].Enum = []any{"utf-8", "base64"} }, s.writeFile)
	add(s, m, mcp.Tool{
		Name: "file_list", Title: "List a directory", Description: "List a directory of a session's workspace: at most 500 entries." + where,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: no()},
	}, nil, s.listFiles)
}

// use does what a tool does with a path of a session, which it makes if there is none.
func (s *Server) use(ctx context.Context, c call, scope access.Scope, session, path string, do func(sandbox.SessionPath) error) error {
	defer s.Owners.Use(session)()
	own := s.own()
	if _, err := own.Session(ctx, scope, session); err != nil {
		if problem.Of(err).Code != problem.NotFound || !c.who.Can(access.Run) {
			return err
		}
		command := sandbox.Command{Session: session, Profile: s.Profile, Description: "makes the session, for its files", Caller: sandbox.Caller{FrontEnd: frontEnd, Token: c.who.Name}}
		if err := own.OpenSession(ctx, c.who, command, executions.Request{Owner: c.who.Name, CancelWithCaller: true}); err != nil {
			return err
		}
	}
	at, err := own.At(ctx, scope, session, path)
	if err == nil {
		err = do(at)
	}
	if err != nil {
		return own.FileProblem(ctx, session, err)
	}
	return nil
}

type readInput struct {
	Session string `json:"session" jsonschema:"Whose workspace it is."`
	Path    string `json:"path" jsonschema:"Relative to the workspace, or absolute below it."`
	Offset  int64  `json:"offset,omitempty" jsonschema:"Of the first byte; the last answer's next_offset continues."`
	Bytes   int    `json:"max_bytes,omitempty" jsonschema:"How many to read; default 12288."`
}

// Content is a part of a file.
type Content struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding" jsonschema:"utf-8 or base64."`
	Offset     int64  `json:"offset"`
	NextOffset int64  `json:"next_offset,omitempty" jsonschema:"Of what follows; absent at the end of the file."`
}

// window keeps a part of what is written to it, and ends the writing behind that.
type window struct {
	skip int64
	most int
	kept bytes.Buffer
	more bool
}

var errEnough = errors.New("enough was read")

func (w *window) Write(p []byte) (int, error) {
	n := len(p)
	skipped := min(w.skip, int64(len(p)))
	w.skip, p = w.skip-skipped, p[skipped:]
	if room := w.most - w.kept.Len(); len(p) > room {
		w.kept.Write(p[:room])
		w.more = true
		return 0, errEnough
	}
	w.kept.Write(p)
	return n, nil
}

func (s *Server) readFile(ctx context.Context, c call, in readInput) (a answer[Content], err error) {
	w := &window{skip: in.Offset, most: in.Bytes}
	if w.most == 0 {
		w.most = viewBytes
	}
	err = s.use(ctx, c, access.Read, in.Session, in.Path, func(at sandbox.SessionPath) error {
		if err := s.Files.ReadFile(ctx, at, w); !w.more {
			return err
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	data := w.kept.Bytes()
	if w.more {
		if n := wholeRunes(data); n > 0 {
			data = data[:n]
		}
	}
	a.out = Content{Path: view.SafeLine(in.Path), Content: string(data), Encoding: "utf-8", Offset: in.Offset}
	if !isText(data) {
		a.out.Content, a.out.Encoding = base64.StdEncoding.EncodeToString(data), "base64"
	}
	a.text = fmt.Sprintf("Path: %s\nBytes: %d to %d\n", a.out.Path, in.Offset, in.Offset+int64(len(data)))
	if w.more {
		a.out.NextOffset = in.Offset + int64(len(data))
		a.text += fmt.Sprintf("Note: the file goes on at offset %d\n", a.out.NextOffset)
	}
	if a.out.Encoding == "base64" {
		a.text += "Content in base64:\n" + a.out.Content + "\n"
	} else {
		a.text += "Content:\n" + a.out.Content
	}
	return a, nil
}

// isText reports whether a file's bytes come as text.
func isText(data []byte) bool {
	return sandbox.Output{Head: data}.IsText()
}

type writeInput struct {
	Session  string `json:"session" jsonschema:"Whose workspace it is."`
	Path     string `json:"path" jsonschema:"Relative to the workspace, or absolute below it."`
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty" jsonschema:"How content is written; default utf-8."`
	Mode     string `json:"mode,omitempty" jsonschema:"Permissions in octal; default 0644."`
}

func (s *Server) writeFile(ctx context.Context, c call, in writeInput) (a answer[Done], err error) {
	data := []byte(in.Content)
	if in.Encoding == "base64" {
		if data, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
			return a, sandbox.Invalid("encode it with base64, with padding", "content is not base64: %v", err)
		}
	}
	mode, err := owned.ParseMode(in.Mode)
	if err != nil {
		return a, err
	}
	err = s.use(ctx, c, access.Run, in.Session, in.Path, func(at sandbox.SessionPath) error {
		return s.Files.WriteFile(ctx, at, mode, int64(len(data)), bytes.NewReader(data))
	})
	if problem.Of(err) != nil && problem.Of(err).Code == problem.NotFound {
		return a, problem.New(problem.NotFound, problem.Of(err).Detail, "make its directory first: shell_run in the same session, with mkdir -p")
	}
	if err != nil {
		return a, err
	}
	return done("Wrote %d bytes to %s.", len(data), view.SafeLine(in.Path)), nil
}

type listInput struct {
	Session string `json:"session" jsonschema:"Whose workspace it is."`
	Path    string `json:"path,omitempty" jsonschema:"Relative to the workspace, which is the default, or absolute below it."`
}

// Entries are those of a directory.
type Entries struct {
	Entries []Entry `json:"entries"`
	Omitted int     `json:"omitted,omitempty" jsonschema:"How many more there are."`
}

// Entry is a file, or a directory.
type Entry struct {
	Name string `json:"name"`
	Type string `json:"type" jsonschema:"file, directory, link, fifo, socket or device."`
	Size int64  `json:"size"`
	Mode string `json:"mode"`
}

func (s *Server) listFiles(ctx context.Context, c call, in listInput) (a answer[Entries], err error) {
	a.out.Entries = []Entry{}
	var text strings.Builder
	err = s.use(ctx, c, access.Read, in.Session, in.Path, func(at sandbox.SessionPath) error {
		list, err := s.Files.ListFiles(ctx, at)
		for _, f := range list[:min(len(list), maxEntries)] {
			e := Entry{f.Name(), filemode.Type(f.Mode()), f.Size(), filemode.Octal(f.Mode())}
			a.out.Entries = append(a.out.Entries, e)
			fmt.Fprintf(&text, "%s %10d %-9s %s\n", e.Mode, e.Size, e.Type, view.SafeLine(e.Name))
		}
		a.out.Omitted = len(list) - len(a.out.Entries)
		return err
	})
	if err != nil {
		return a, err
	}
	if a.out.Omitted > 0 {
		fmt.Fprintf(&text, "and %d more: use shell_run with ls and a pattern\n", a.out.Omitted)
	}
	if a.text = text.String(); a.text == "" {
		a.text = "The directory is empty.\n"
	}
	return a, nil
}
