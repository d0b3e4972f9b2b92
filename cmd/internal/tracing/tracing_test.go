package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	callersSpan = "b7ad6b7169203331"
	traceparent = "00-" + traceID + "-" + callersSpan + "-01"
)

// collector keeps what was sent.
type collector struct {
	collect.UnimplementedTraceServiceServer
	service []string
	spans   []*wire.Span
}

// Export is the call over gRPC. Setup's batches come one at a time.
func (c *collector) Export(_ context.Context, sent *collect.ExportTraceServiceRequest) (*collect.ExportTraceServiceResponse, error) {
	for _, resource := range sent.ResourceSpans {
		c.service = append(c.service, texts(resource.Resource.Attributes)...)
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	return &collect.ExportTraceServiceResponse{}, nil
}

// ServeHTTP is the call over HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var sent collect.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, fmt.Sprint(r.URL, r.Header, err), http.StatusBadRequest)
		return
	}
	c.Export(r.Context(), &sent)
}

func texts(list []*common.KeyValue) (texts []string) {
	for _, kv := range list {
		if s, ok := kv.Value.Value.(*common.AnyValue_StringValue); ok {
			texts = append(texts, kv.Key+"="+s.StringValue)
		}
	}
	return texts
}

// serve runs one command by an API, with the header as its traceparent, and sends its spans.
func serve(t *testing.T, traceparent string) {
	t.Helper()
	spans, err := Setup(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	runner := &local.Local{Engine: &sandboxtest.Engine{Script: func(*sandboxtest.Proc) int { return 0 }}, Images: &sandboxtest.Images{}}
	defer runner.Close()
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/executions", func(_ http.ResponseWriter, r *http.Request) {
		if _, err := sandbox.Run(r.Context(), runner, sandbox.Command{Script: "a secret", ID: "x1"}); err != nil {
			t.Error(err)
		}
	})
	routes.HandleFunc("GET /metrics", func(http.ResponseWriter, *http.Request) {})
	for _, path := range []string{"POST /v1/executions", "GET /metrics", "GET /of-a-caller"} {
		method, path, _ := strings.Cut(path, " ")
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Traceparent", traceparent)
		spans.Requests(routes, routes).ServeHTTP(httptest.NewRecorder(), r)
	}
	if err := spans.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// want checks one request's spans: the caller's, below it the request's, below that the
// command's, and below that its steps.
func (c *collector) want(t *testing.T) {
	t.Helper()
	byName := map[string]*wire.Span{}
	for _, span := range c.spans {
		byName[span.Name] = span
		if id := fmt.Sprintf("%x", span.TraceId); id != traceID {
			t.Errorf("%s belongs to trace %s", span.Name, id)
		}
	}
	request, execution := byName["POST /v1/executions"], byName["belljar.execution"]
	if request == nil || execution == nil || len(c.spans) != 8 {
		t.Fatalf("%d spans: %v", len(c.spans), c.spans)
	}
	if parent := fmt.Sprintf("%x", request.ParentSpanId); parent != callersSpan || request.Kind != wire.Span_SPAN_KIND_SERVER {
		t.Errorf("the request's span is a %v below %s", request.Kind, parent)
	}
	if string(execution.ParentSpanId) != string(request.SpanId) {
		t.Error("the command's span is not below the request's")
	}
	for _, step := range []string{"policy", "image", "place", "run", "list", "leave"} {
		if span := byName["belljar."+step]; span == nil || string(span.ParentSpanId) != string(execution.SpanId) {
			t.Errorf("%s is not below the command's span: %v", step, span)
		}
	}
	if !slices.Contains(c.service, "service.name=belljar") || !slices.Contains(c.service, "service.version=v1.2.3") {
		t.Errorf("the service is %q", c.service)
	}
	if strings.Contains(fmt.Sprint(c.spans, c.service), "secret") {
		t.Error("a span has the command's text")
	}
}

func TestHTTP(t *testing.T) {
	c := &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	serve(t, traceparent)
	c.want(t)
}

func TestGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, server := &collector{}, grpc.NewServer()
	collect.RegisterTraceServiceServer(server, c)
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+listener.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	serve(t, traceparent)
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	c.want(t)
}

// A header that is none starts a trace, and OpenTelemetry's own variables hold.
func TestVariables(t *testing.T) {
	c := &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_SERVICE_NAME", "of-mine")
	serve(t, "00-"+strings.Repeat("z", 1<<16)+"-01")
	if len(c.spans) != 8 || !slices.Contains(c.service, "service.name=of-mine") {
		t.Errorf("%d spans of %q", len(c.spans), c.service)
	}
	c.spans = nil
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	serve(t, "")
	if len(c.spans) != 0 {
		t.Errorf("always_off sent %v", c.spans)
	}
}

func TestOff(t *testing.T) {
	c := &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	for name, variables := range map[string][]string{
		"without an address": {"OTEL_SERVICE_NAME=belljar"},
		"disabled":           {"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_SDK_DISABLED=True"},
		"no exporter":        {"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_TRACES_EXPORTER=none"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range variables {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			serve(t, traceparent)
			if len(c.spans) != 0 {
				t.Errorf("%d spans were sent", len(c.spans))
			}
		})
	}
}

func TestProtocol(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	_, err := Setup(t.Context(), "", slog.Default())
	const want = `OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is not supported (write http/protobuf or grpc)`
	if err == nil || err.Error() != want || sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("%v, want %s", err, want)
	}
}

// A collector that hangs holds up neither a command nor, for long, the end.
func TestCollectorHangs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // that accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	spans, err := Setup(t.Context(), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := spans.provider.Tracer("test").Start(t.Context(), "a span")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := spans.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
}
