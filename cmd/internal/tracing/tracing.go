// Package tracing sends a server's spans to an OpenTelemetry collector.
//
// The one rule: it is off until OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT says where the collector is. All other settings are
// OpenTelemetry's own variables, too: OTEL_EXPORTER_OTLP_PROTOCOL and _HEADERS,
// OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME, OTEL_SDK_DISABLED.
//
//	spans, err := tracing.Setup(ctx, version, log)
//	defer spans.Shutdown(ctx)
//	handler = spans.Requests(routes, routes)
//
// Design: there is no global provider. A command's spans are below that of its request, so
// only what a request starts is traced, and the engine's client does not trace the pool.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"belljar/sandbox"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Tracing makes and sends spans, or does nothing where it is off.
type Tracing struct {
	provider *sdk.TracerProvider // nil: off
}

// Setup reads the OTEL_* variables. Of a collector that does not answer, log has a warning.
func Setup(ctx context.Context, version string, log *slog.Logger) (*Tracing, error) {
	if isOff() {
		return &Tracing{}, nil
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "belljar"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, invalid("see https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables", "OTEL_RESOURCE_ATTRIBUTES: %v", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("sending spans failed", "error", err) }))
	return &Tracing{provider: sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))}, nil
}

func isOff() bool {
	return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" ||
		traceSetting("ENDPOINT") == ""
}

// traceSetting is one of the OTLP exporter's variables. That for traces comes first.
func traceSetting(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// newExporter takes its address, headers and certificates from the environment.
func newExporter(ctx context.Context) (sdk.SpanExporter, error) {
	switch protocol := traceSetting("PROTOCOL"); protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, invalid("write http/protobuf or grpc", "OTEL_EXPORTER_OTLP_PROTOCOL: %q is not supported", protocol)
	}
}

func invalid(hint, format string, args ...any) error {
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// LastWords is how long Shutdown may take. A collector that hangs must not keep a server.
const LastWords = 5 * time.Second

// Shutdown sends the spans that are left, until ctx ends. It comes after the last request.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, LastWords)
	defer cancel()
	return t.provider.Shutdown(ctx)
}
