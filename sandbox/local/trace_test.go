package local_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// tracedContext has a span of a provider of its own, that finishes.
func tracedContext(t testing.TB, options ...sdk.TracerProviderOption) (context.Context, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(append(options, sdk.WithSpanProcessor(recorder))...)
	ctx, _ := provider.Tracer("test").Start(t.Context(), "caller")
	return ctx, recorder
}

// wantSpans wants these names, in the order of their ends.
func wantSpans(t *testing.T, recorder *tracetest.SpanRecorder, want ...string) (last sdk.ReadOnlySpan) {
	t.Helper()
	var names []string
	for _, span := range recorder.Ended() {
		names = append(names, strings.TrimPrefix(span.Name(), "belljar."))
		last = span
	}
	if !slices.Equal(names, want) {
		t.Fatalf("spans %q, want %q", names, want)
	}
	for _, span := range recorder.Ended() {
		parent := last.SpanContext().SpanID()
		if span == last {
			parent = recorder.Started()[0].SpanContext().SpanID()
		}
		if span.Parent().SpanID() != parent || span.SpanContext().TraceID() != last.SpanContext().TraceID() {
			t.Errorf("%s is not where it belongs", span.Name())
		}
	}
	return last
}

// attributes are those of a span, as "name=value".
func attributes(span sdk.ReadOnlySpan) (list []string) {
	for _, a := range span.Attributes() {
		list = append(list, fmt.Sprintf("%s=%s", strings.TrimPrefix(string(a.Key), "belljar."), a.Value.String()))
	}
	return list
}

func wantAttributes(t *testing.T, span sdk.ReadOnlySpan, status string, want ...string) {
	t.Helper()
	if got := attributes(span); !slices.Equal(got, want) || span.Status().Description != status {
		t.Errorf("%s has %q and the status %+v, want %q and %q", span.Name(), got, span.Status(), want, status)
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	ctx, recorder := tracedContext(t)
	l := newLocal(playing(func(*sandboxtest.Proc) int { return 3 }))
	r, err := sandbox.Run(ctx, l, sandbox.Command{Script: "a secret", ID: "x1", Env: []string{"A=secret"}, Description: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	last := wantSpans(t, recorder, "policy", "image", "place", "run", "list", "leave", "execution")
	wantAttributes(t, last, "", "id=x1", "profile=default", "session=false", "cause=exited", "exit_code=3", "warm=false")
	for _, span := range recorder.Ended() {
		if text := fmt.Sprint(span.Name(), span.Status(), span.Events(), attributes(span)); strings.Contains(text, "secret") {
			t.Errorf("a span says what the command was: %s", text)
		}
	}
	if r.Cause != sandbox.CauseExited {
		t.Errorf("the traced command: %s, %s", r.Cause, r.Message)
	}
}

func TestTraceKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, recorder := tracedContext(t)
		r, err := sandbox.Run(ctx, newLocal(playing(sleep(time.Hour))), sandbox.Command{Script: "sleep", ID: "x1", Timeout: time.Minute})
		if err != nil || r.Cause != sandbox.CauseWallTimeout {
			t.Fatalf("%s, %v", r.Cause, err)
		}
		last := wantSpans(t, recorder, "policy", "image", "place", "run", "list", "kill", "leave", "execution")
		wantAttributes(t, last, "", "id=x1", "profile=default", "session=false", "cause=wall_timeout", "exit_code=-1", "warm=false")
		for _, span := range recorder.Ended() {
			if took := span.EndTime().Sub(span.StartTime()); (span.Name() == "belljar.run") != (took == time.Minute) && span != last {
				t.Errorf("%s took %v of the minute", span.Name(), took)
			}
		}
	})
}

// What did not start has an end, too, without the words of the refusal, which quote
// the command.
func TestTraceRefused(t *testing.T) {
	t.Parallel()
	denying := profile()
	denying.Policy = verdict{Decision: sandbox.Deny, Reason: "a secret word"}
	l := newLocal(&sandboxtest.Engine{})
	l.Profiles["denying"] = denying
	failing := newLocal(&sandboxtest.Engine{})
	failing.Images = &sandboxtest.Images{OnResolve: func(context.Context) error {
		return &sandbox.Error{Cause: sandbox.CauseImage, Message: "a secret image"}
	}}
	for _, test := range []struct {
		name       string
		local      *local.Local
		command    sandbox.Command
		spans      []string
		status     string
		attributes []string
	}{
		{"denied", l, sandbox.Command{Script: "secret", ID: "x1", Profile: "denying"}, []string{"policy", "execution"}, "denied",
			[]string{"id=x1", "profile=denying", "session=false", "cause=denied", "exit_code=-2"}},
		{"invalid", l, sandbox.Command{Profile: "a caller's"}, []string{"execution"}, "invalid_command",
			[]string{"cause=invalid_command", "exit_code=-2"}},
		{"no image", failing, sandbox.Command{Script: "secret", ID: "x1"}, []string{"policy", "image", "execution"}, "image_error",
			[]string{"id=x1", "profile=default", "session=false", "cause=image_error", "exit_code=-2", "warm=false"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, recorder := tracedContext(t)
			if _, err := sandbox.Run(ctx, test.local, test.command); err == nil {
				t.Fatal("it ran")
			}
			wantAttributes(t, wantSpans(t, recorder, test.spans...), test.status, test.attributes...)
		})
	}
}

// The span of a command that was prepared belongs to the one who prepared it.
func TestTracePrepared(t *testing.T) {
	t.Parallel()
	ctx, recorder := tracedContext(t)
	p, err := newLocal(playing(sleep(0))).Prepare(ctx, command())
	if err != nil {
		t.Fatal(err)
	}
	x, err := p.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x.Wait()
	wantSpans(t, recorder, "policy", "image", "place", "run", "list", "leave", "execution")
}

// What tracing costs a command that nobody traces, and one that is not sampled.
func BenchmarkTraceOff(b *testing.B) {
	for _, bench := range []struct {
		name string
		ctx  func(b *testing.B) context.Context
	}{
		{"no_provider", func(b *testing.B) context.Context { return b.Context() }},
		{"not_sampled", func(b *testing.B) context.Context {
			ctx, _ := tracedContext(b, sdk.WithSampler(sdk.NeverSample()))
			return ctx
		}},
		{"sampled", func(b *testing.B) context.Context {
			provider := sdk.NewTracerProvider()
			ctx, _ := provider.Tracer("test").Start(b.Context(), "caller")
			return ctx
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			ctx, r := bench.ctx(b), sandbox.Result{}
			for b.Loop() {
				local.TraceAll(ctx, &r)
			}
		})
	}
}
