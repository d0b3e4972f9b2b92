package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/pkg/jsonmessage"
	"github.com/moby/term"
)

// pull fetches ref from its registry, without credentials.
func (s *Store) pull(ctx context.Context, ref reference.Named) error {
	stream, err := s.Client.ImagePull(ctx, ref.String(), image.PullOptions{})
	if err == nil {
		err = s.display(stream)
	}
	if err == nil {
		return nil
	}
	if !answered(err) {
		return fmt.Errorf("pulling image %q: %w", familiar(ref), err)
	}
	// The engine pulls without credentials, so docker's own pull may succeed.
	byHand := "check the name; if the registry requires a login, `docker pull " + familiar(ref) + "` uses docker's login; or " +
		"`belljar images import FILE --tag NAME`, or `belljar images build base`"
	switch {
	case cerrdefs.IsNotFound(err) || hasCode(err, http.StatusNotFound):
		return refuse(quoted{err}, byHand, "image %q is not in its registry, or is private", familiar(ref))
	case cerrdefs.IsUnauthorized(err) || hasCode(err, http.StatusUnauthorized),
		cerrdefs.IsPermissionDenied(err) || hasCode(err, http.StatusForbidden):
		return refuse(quoted{err}, byHand, "the registry of image %q requires a login", familiar(ref))
	default:
		return refuse(quoted{err}, withoutRegistry(ref), "image %q cannot be pulled", familiar(ref))
	}
}

func withoutRegistry(ref reference.Named) string {
	return "check the network and the registry; without one, `belljar images import FILE --tag " + familiar(ref) + "` or `belljar images build base`"
}

// display shows a pull's or load's messages as they come. It returns errors among them,
// which arrive inside a 200, as *jsonmessage.JSONError.
func (s *Store) display(stream io.ReadCloser) error {
	defer stream.Close()
	out := shown(s.Progress)
	fd, terminal := term.GetFdInfo(out)
	err := jsonmessage.DisplayJSONMessagesStream(safeMessages(stream), out, fd, terminal, nil)
	if _, ok := errors.AsType[*jsonmessage.JSONError](err); ok || err == nil {
		return err
	}
	return fmt.Errorf("%w: %w", errBrokenAnswer, err)
}

// hasCode reports whether err is a stream's error with that HTTP status.
func hasCode(err error, code int) bool {
	message, ok := errors.AsType[*jsonmessage.JSONError](err)
	return ok && message.Code == code
}
