package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRequests(t *testing.T) {
	m, routes := newMetrics(), http.NewServeMux()
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	routes.HandleFunc("GET /v1/executions/{id}", answer(http.StatusNotFound))
	routes.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "200 without a word") })
	routes.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "ok")
	})
	routes.HandleFunc("/panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	allowed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		routes.ServeHTTP(w, r.Clone(r.Context())) // a request with another context has its pattern to itself
	})
	handler := m.Requests(routes, allowed)
	ask := func(method, path, token string) {
		defer func() { recover() }()
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", token)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	for i := range 100 {
		ask("GET", fmt.Sprintf("/v1/executions/%d", i), "token")
		ask("GET", fmt.Sprintf("/of-a-caller/%d", i), "token")
		ask(fmt.Sprintf("METHOD%d", i), "/healthz", "token")
	}
	ask("POST", "/v1/executions", "token")
	ask("POST", "/v1/executions", "")
	ask("GET", "/panics", "token")
	want(t, m, `# HELP belljar_http_requests_total Requests to the API that were answered.
# TYPE belljar_http_requests_total counter
belljar_http_requests_total{code="200",method="POST",route="/v1/executions"} 1
belljar_http_requests_total{code="200",method="other",route="/healthz"} 100
belljar_http_requests_total{code="401",method="POST",route="/v1/executions"} 1
belljar_http_requests_total{code="404",method="GET",route="/v1/executions/{id}"} 100
belljar_http_requests_total{code="404",method="GET",route="other"} 100
belljar_http_requests_total{code="500",method="GET",route="/panics"} 1
`, "belljar_http_requests_total")
}

// A stream needs Flush, a terminal Hijack, and both need deadlines.
func TestRequestsKeepsTheConnection(t *testing.T) {
	m, routes := newMetrics(), http.NewServeMux()
	routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("Flush: %v", err)
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("Hijack: %v", err)
			return
		}
		conn.Close()
	})
	server := httptest.NewServer(m.Requests(routes, routes))
	defer server.Close()
	if response, err := server.Client().Get(server.URL); err == nil {
		response.Body.Close()
	}
}
