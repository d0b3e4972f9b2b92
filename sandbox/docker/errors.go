package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"

	"github.com/docker/docker/client"
	"github.com/docker/go-units"
)

// engineError begins an error.
var engineError = failure.New

// answered is why Connect refuses an engine that answers.
type answered struct{ error }

// Unwrap is for package errors.
func (a answered) Unwrap() error { return a.error }

// Answered reports whether an error of Connect is that of an engine that answers.
func Answered(err error) bool {
	_, yes := errors.AsType[answered](err)
	return yes
}

// connectError says why an engine cannot be reached.
func connectError(err error, host string) error {
	switch {
	case errors.Is(err, context.Canceled):
		return &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the engine answered"}
	case errors.Is(err, fs.ErrPermission):
		return engineError(nil, "no permission to use the engine's socket %s", host).
			Hint("run as root or as a member of the docker group, which is root on this host too: usermod -aG docker USER")
	case noSocket(host):
		return engineError(nil, "no engine at %s: the socket does not exist", host).
			Hint("install and start one: apt-get install -y docker.io; or set engine.host or DOCKER_HOST")
	case strings.HasPrefix(host, "ssh://"):
		return engineError(errors.New(failure.OneLine(err.Error())), "the engine at %s does not answer", host).
			Hint("ssh must log in without a question and find docker there: ssh -o BatchMode=yes HOST docker version")
	case client.IsErrConnectionFailed(err) && !strings.HasPrefix(host, "unix://"):
		return engineError(errors.New(failure.OneLine(err.Error())), "the engine at %s does not answer", host).
			Hint("check the address and, for TLS, the certificates: DOCKER_CERT_PATH, or docker context inspect")
	case client.IsErrConnectionFailed(err):
		return engineError(err, "the engine at %s does not answer", host).
			Hint("start it: systemctl start docker; or set engine.host or DOCKER_HOST")
	}
	return engineError(err, "asking the engine at %s for its version", host).Hint("see: belljar doctor")
}

// noSocket checks the file itself: the client does not pass the reason on.
func noSocket(host string) bool {
	path, isUnix := strings.CutPrefix(host, "unix://")
	_, err := os.Stat(path)
	return isUnix && errors.Is(err, fs.ErrNotExist)
}

// humanSize is how people write a number of bytes: 64 MiB.
func humanSize(n int64) string {
	return units.CustomSize("%.4g %s", float64(n), 1024, []string{"bytes", "KiB", "MiB", "GiB", "TiB"})
}
