package httpapi

import (
	"net/http"
	"strconv"

	"belljar/cmd/internal/problem"

	"github.com/danielgtaylor/huma/v2"
)

// What may refuse every request: the guard, the bounds and the checks in front of its handler; and those that
// have a body.
var (
	refusals     = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusServiceUnavailable}
	bodyRefusals = []int{http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}
)

// documentRefusals adds them to all operations.
func documentRefusals(doc *huma.OpenAPI) {
	is := &huma.MediaType{Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if op == nil {
				continue
			}
			all := refusals
			if op.RequestBody != nil {
				all = append(all[:len(all):len(all)], bodyRefusals...)
			}
			for _, status := range all {
				if code := strconv.Itoa(status); op.Responses[code] == nil {
					op.Responses[code] = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{problem.ContentType: is}}
				}
			}
		}
	}
}
