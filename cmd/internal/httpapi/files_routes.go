package httpapi

import (
	"context"
	"net/http"
	"path"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/internal/filemode"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

const mediaTar = "application/x-tar"

func (s *Server) registerFiles(api huma.API) {
	const at, documented = "/v1/sessions/{name}/files/{path...}", "/v1/sessions/{name}/files/{path}"
	const paths = " The path is relative to the session's workspace, or absolute below it. It is one or more escaped elements: an absolute one begins with %2F."
	bytes := content(api, "file, the directory's entries, the archive or the changes", map[string]string{mediaBytes: "", "application/json": "Entries", mediaTar: "", mediaNDJSON: "Change"})
	bytes.Headers = map[string]*huma.Param{"Belljar-Mode": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "A file's permissions in octal."}}
	where := []*huma.Param{{Name: "path", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}}
	none := map[string]*huma.Response{"204": {Description: "Done."}}
	huma.Register(api, huma.Operation{
		OperationID: "get-file", Method: http.MethodGet, Path: at, Parameters: where, Summary: "Read a file, or list a directory", Errors: []int{403, 404, 422, 426, 502},
		Description: "A body that ends early is cut: the connection breaks. Links are not followed." + paths,
		Responses:   map[string]*huma.Response{"200": bytes},
	}, s.getFile)
	huma.Register(api, huma.Operation{
		OperationID: "put-file", Method: http.MethodPut, Path: at, Parameters: where, DefaultStatus: http.StatusNoContent, Summary: "Write a file, or unpack a tar archive into a directory", Errors: []int{403, 404, 411, 413, 415, 422, 502},
		Description: "Nothing changes until all of the body has arrived. A file replaces a file. At most 1 GiB, and 100,000 entries of an archive." + paths,
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{mediaBytes: {}, mediaTar: {}}}, Responses: none,
	}, s.putFile)
	huma.Register(api, huma.Operation{
		OperationID: "remove-file", Method: http.MethodDelete, Path: at, Parameters: where, DefaultStatus: http.StatusNoContent, Summary: "Remove a file, or a directory and all in it", Errors: []int{403, 404, 422, 502},
		Description: "The workspace itself stays." + paths, Responses: none,
	}, s.removeFile)
	all := api.OpenAPI().Paths
	all[documented] = all[at]
	delete(all, at)
}

// FilePath is a path in a session.
type FilePath struct {
	Name string `path:"name" maxLength:"64"`
	path string
}

// Resolve implements huma.Resolver. A parameter of huma's cannot be empty, as the
// workspace's own path is.
func (p *FilePath) Resolve(h huma.Context) []error {
	p.path = h.Param("path")
	return nil
}

type getFileInput struct {
	FilePath
	List  bool `query:"list" doc:"The entry of a file, instead of its content."`
	Tar   bool `query:"tar" doc:"A tar archive of the file or directory. Its names begin with the last element of the path; if that ends with /., they are relative to it."`
	Watch bool `query:"watch" doc:"The changes of a directory's entries as they happen, as NDJSON, looked for once a second. Not of those below. A watched session is not idle."`
}

func (s *Server) getFile(ctx context.Context, in *getFileInput) (*huma.StreamResponse, error) {
	done := s.Owners.Use(in.Name)
	at, err := s.own().At(ctx, access.Read, in.Name, in.path)
	if err != nil {
		done()
		return nil, problem.Of(err)
	}
	send := s.sendFile
	switch {
	case in.Tar:
		send = s.sendTar
	case in.Watch:
		send = s.sendChanges
	case in.List:
		send = s.sendList
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		defer done()
		r, w := humago.Unwrap(h)
		out := newDownload(w)
		defer out.done()
		if err := send(r, at, out); err != nil {
			if out.begun {
				panic(http.ErrAbortHandler) // no one may take a part for the whole
			}
			s.own().FileProblem(r.Context(), in.Name, err).Write(w)
		}
	}}, nil
}

// sendFile sends a file's content, or a directory's entries.
func (s *Server) sendFile(r *http.Request, at sandbox.SessionPath, out *download) error {
	list, err := s.Files.ListFiles(r.Context(), at)
	if err != nil {
		return err
	}
	if len(list) != 1 || !list[0].Mode().IsRegular() || list[0].Name() != path.Base(at.Path) {
		return out.entries(list)
	}
	if err := out.canBeWhole(r); err != nil {
		return err
	}
	out.media = mediaBytes
	out.w.Header().Set("Belljar-Mode", filemode.Octal(list[0].Mode()))
	if r.Method == http.MethodHead {
		return out.end()
	}
	if err = s.Files.ReadFile(r.Context(), at, out); err == nil {
		return out.end()
	}
	if !out.begun { // a directory with a file of its own name in it looks the same
		within := at
		within.Path += "/."
		if list, failed := s.Files.ListFiles(r.Context(), within); failed == nil {
			out.w.Header().Del("Belljar-Mode")
			return out.entries(list)
		}
	}
	return err
}

func (s *Server) sendTar(r *http.Request, at sandbox.SessionPath, out *download) error {
	if err := out.canBeWhole(r); err != nil {
		return err
	}
	out.media = mediaTar
	if err := s.Files.ReadTar(r.Context(), at, out); err != nil {
		return err
	}
	return out.end()
}

func (s *Server) sendList(r *http.Request, at sandbox.SessionPath, out *download) error {
	list, err := s.Files.ListFiles(r.Context(), at)
	if err != nil {
		return err
	}
	return out.entries(list)
}

type removeFileInput struct{ FilePath }

func (s *Server) removeFile(ctx context.Context, in *removeFileInput) (*huma.StreamResponse, error) {
	defer s.Owners.Use(in.Name)()
	at, err := s.own().At(ctx, access.Run, in.Name, in.path)
	if err == nil {
		err = s.Files.RemoveFile(ctx, at)
	}
	if err != nil {
		return nil, s.own().FileProblem(ctx, in.Name, err)
	}
	return noContent(), nil
}

func noContent() *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(h huma.Context) { h.SetStatus(http.StatusNoContent) }}
}
