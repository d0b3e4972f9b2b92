package local

import (
	"context"

	"belljar/sandbox"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// The spans of a command. Their attributes and errors never contain its text, its
// environment or its output.
const (
	spanExecution = "belljar.execution" // all of it, with the others below it
	spanPolicy    = "belljar.policy"    // the judgment, with a person's answer
	spanImage     = "belljar.image"
	spanPlace     = "belljar.place" // taking or making the container
	spanRun       = "belljar.run"   // from the command's start to its end
	spanList      = "belljar.list"  // what still runs, and the counters
	spanKill      = "belljar.kill"
	spanLeave     = "belljar.leave" // removing or giving back the container
)

// traced begins the span of a command: below the span in ctx, or else by the program's own
// provider. Without either, nothing is recorded.
func traced(ctx context.Context) (context.Context, trace.Span) {
	provider := otel.GetTracerProvider()
	if parent := trace.SpanFromContext(ctx); parent.SpanContext().IsValid() {
		provider = parent.TracerProvider()
	}
	return provider.Tracer("belljar/sandbox/local").Start(ctx, spanExecution)
}

// named says which command the span in ctx is of, once its fields are checked.
func named(ctx context.Context, c sandbox.Command) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("belljar.id", c.ID), attribute.String("belljar.profile", c.Profile), attribute.Bool("belljar.session", c.Session != ""))
}

// step begins a span below the command's.
func step(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, unrecorded
	}
	return parent.TracerProvider().Tracer("belljar/sandbox/local").Start(ctx, name)
}

var unrecorded = trace.SpanFromContext(context.Background())

// endStep ends a span. Of an error it has the cause only: a message may quote the command.
func endStep(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.SetStatus(codes.Error, string(sandbox.CauseOf(err)))
	}
	span.End()
}

// endRefused ends the span of a command that did not start.
func endRefused(span trace.Span, err error) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String("belljar.cause", string(sandbox.CauseOf(err))), attribute.Int("belljar.exit_code", sandbox.ExitNeverRan))
	}
	endStep(span, err)
}

// endTraced ends the span of a command that started. A command that failed is no error.
func endTraced(span trace.Span, r *sandbox.Result, err error) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String("belljar.cause", string(r.Cause)), attribute.Int("belljar.exit_code", r.ExitCode), attribute.Bool("belljar.warm", r.Container.Warm))
	}
	endStep(span, err)
}

// end ends the command in its place.
func (x *execution) end(ctx context.Context, place place, why string) cleanup {
	ctx, span := step(ctx, spanKill)
	defer span.End()
	return place.End(ctx, why)
}

// leave is the place's last call.
func (x *execution) leave(ctx context.Context, place place, err error) cleanup {
	ctx, span := step(ctx, spanLeave)
	defer span.End()
	return place.Leave(ctx, x.result, err)
}
