package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/felixge/httpsnoop"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// clientLeft is the code of a request whose client left before the end of its answer, as in other
// servers: no status was sent, or one that says less.
const clientLeft = 499

// maxScrapes bounds the scrapes at a time; more get a 503.
const maxScrapes = 4

// Handler serves the metrics. It does not compress: that would let a scrape cost more than
// its answer.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		DisableCompression: true, MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError, Registry: m.registry,
	})
}

// Requests counts the requests that next answers, by the pattern that they have in routes.
// It goes around everything that may answer, so that what is refused counts, too.
func (m *Metrics) Requests(routes *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := routes.Handler(r)
		method, code, ended := methodLabel(r.Method), http.StatusOK, false
		defer func() {
			switch {
			case !ended && r.Context().Err() != nil:
				code = clientLeft
			case !ended: // it panicked
				code = http.StatusInternalServerError
			}
			m.requests.WithLabelValues(routeLabel(pattern), method, strconv.Itoa(code)).Inc()
		}()
		next.ServeHTTP(httpsnoop.Wrap(w, httpsnoop.Hooks{
			WriteHeader: func(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
				return func(status int) {
					if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
						code = status
					}
					write(status)
				}
			},
		}), r)
		ended = true
	})
}

// routeLabel is a pattern without its method.
func routeLabel(pattern string) string {
	if pattern == "" {
		return other
	}
	return pattern[strings.LastIndexByte(pattern, ' ')+1:]
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

func methodLabel(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return other
}
