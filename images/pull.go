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
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/pkg/jsonmessage"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/term"
)

// pull fetches ref from its registry.
func (s *Store) pull(ctx context.Context, ref reference.Named) error {
	login, err := s.login(ctx, ref)
	if err != nil {
		return refuse(quoted{err}, "check the login: docker login "+reference.Domain(ref), "the login for the registry of image %q cannot be read", familiar(ref))
	}
	stream, err := s.Client.ImagePull(ctx, ref.String(), image.PullOptions{RegistryAuth: login})
	if err == nil {
		err = s.display(stream)
	}
	if err == nil {
		return nil
	}
	if !answered(err) {
		return fmt.Errorf("pulling image %q: %w", familiar(ref), err)
	}
	byHand := loginHint(ref) + "; or `belljar images import FILE --tag NAME`, or `belljar images build base`"
	switch {
	case cerrdefs.IsNotFound(err) || hasCode(err, http.StatusNotFound):
		return refuse(quoted{err}, byHand, "image %q is not in its registry, or is private", familiar(ref))
	case cerrdefs.IsUnauthorized(err) || hasCode(err, http.StatusUnauthorized),
		cerrdefs.IsPermissionDenied(err) || hasCode(err, http.StatusForbidden):
		return refuse(quoted{err}, byHand, "the registry of image %q requires a login", familiar(ref))
	default:
		return refuse(quoted{err}, loginHint(ref)+"; "+withoutRegistry(ref), "image %q cannot be pulled", familiar(ref))
	}
}

// login is that for an image's registry, for the engine; "" where there is none.
func (s *Store) login(ctx context.Context, ref reference.Named) (string, error) {
	parsed, err := name.ParseReference(ref.String())
	if err != nil {
		return "", err
	}
	auth, err := authn.Resolve(ctx, keychainOr(s.Keychain), parsed.Context())
	if err != nil || auth == authn.Anonymous {
		return "", err
	}
	a, err := authn.Authorization(ctx, auth)
	if err != nil {
		return "", err
	}
	server := parsed.Context().RegistryStr()
	if server == name.DefaultRegistry {
		server = authn.DefaultAuthKey // as docker has it
	}
	return registry.EncodeAuthConfig(registry.AuthConfig{
		Username: a.Username, Password: a.Password, Auth: a.Auth, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken, ServerAddress: server,
	})
}

// keychainOr is a keychain, or that of docker and podman.
func keychainOr(k authn.Keychain) authn.Keychain {
	if k == nil {
		return authn.DefaultKeychain
	}
	return k
}

// loginHint is what to do where a registry has no such image for us.
func loginHint(ref reference.Named) string {
	return "check the name; if the registry requires a login, `docker login " + reference.Domain(ref) + "` or `podman login` gives belljar one, too"
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
