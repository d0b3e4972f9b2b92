package tracing

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Requests makes a span for each request to the API, below that of its traceparent header.
// The name is the pattern in routes: a path may name a caller's file. It goes behind the
// check of who calls, so that no stranger makes spans.
//
// What a request starts and does not wait for needs the values of the request's context:
// see context.WithoutCancel.
func (t *Tracing) Requests(routes *http.ServeMux, next http.Handler) http.Handler {
	if t.provider == nil {
		return next
	}
	tracer, parents := t.provider.Tracer("belljar/cmd/internal/tracing"), propagation.TraceContext{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := routes.Handler(r)
		_, route, found := strings.Cut(pattern, " ")
		if !found || !strings.HasPrefix(route, "/v1/") { // such as a scrape
			next.ServeHTTP(w, r)
			return
		}
		ctx := parents.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, pattern, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("http.route", route)))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
