package images

import (
	"context"
	"errors"
	"testing"
	"time"

	"belljar/sandbox"
)

// What the engine answers to a build is told, and what an image begins with must be there.
func TestBuildDockerfileFails(t *testing.T) {
	d := Dockerfile{Tag: "belljar/x:1", Files: []sandbox.File{{Path: "Dockerfile", Content: []byte("FROM scratch\n")}}, Timeout: time.Minute}
	build := func(f *fakeEngine, d Dockerfile) error {
		_, err := (&Store{Client: f}).BuildDockerfile(t.Context(), d, sandbox.PullNever)
		return err
	}
	wantCause(t, build(&fakeEngine{answer: `{"errorDetail":{"message":"no such step\u001b"},"error":"no such step"}`}, d), sandbox.CauseImage, `building image "belljar/x:1"`, "no such step ", "--allow-network")
	if err := build(&fakeEngine{answer: `{"stream":`}, d); err == nil || sandbox.CauseOf(err) == sandbox.CauseImage {
		t.Errorf("an answer that ends early: %v", err)
	}
	late := d
	late.Timeout = time.Nanosecond
	wantCause(t, build(&fakeEngine{err: context.DeadlineExceeded}, late), sandbox.CauseImage, "was not built within")
	from := d
	from.From = []string{"belljar/nosuch"}
	wantCause(t, build(&fakeEngine{err: nil}, from), sandbox.CauseImage, `"belljar/nosuch:latest" is not present`)
	named := d
	named.Tag = "x@sha256:0"
	if err := build(&fakeEngine{err: errors.New("asked")}, named); err == nil || err.Error() == "asked" {
		t.Errorf("a malformed name: %v", err)
	}
}
