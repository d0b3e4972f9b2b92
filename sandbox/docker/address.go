package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/client"
)

// address is where an engine is.
type address struct {
	host       string
	context    bool // of a docker context, which has the settings of TLS, not the environment
	skipVerify bool // any certificate is accepted

	ca, cert, key string // files; "" is none
}

// resolve finds the engine's address as the docker command does.
func resolve(host string) (address, error) {
	if host == "" {
		host = os.Getenv(client.EnvOverrideHost)
	}
	if host != "" {
		return address{host: host}, nil
	}
	name, err := currentContext()
	if err != nil || name == "" || name == "default" {
		return address{host: client.DefaultDockerHost}, err
	}
	return contextAddress(name)
}

// options are those of a client of that engine.
func (a address) options() []client.Opt {
	settings := []client.Opt{client.FromEnv, client.WithHost(a.host)}
	if a.context {
		settings = []client.Opt{client.WithVersionFromEnv(), client.WithHost(a.host)}
		if a.ca+a.cert+a.key != "" {
			settings = append(settings, client.WithTLSClientConfig(a.ca, a.cert, a.key))
		}
	}
	return append(settings, ownDialer(a), client.WithAPIVersionNegotiation())
}

// IsNamed reports whether somebody chose an engine: with host, in the environment, or by a
// docker context.
func IsNamed(host string) bool {
	at, err := resolve(host)
	return err != nil || at.host != client.DefaultDockerHost
}

// configDir is the docker command's.
func configDir() string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

func currentContext() (string, error) {
	if name := os.Getenv("DOCKER_CONTEXT"); name != "" {
		return name, nil
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	err := readJSON(filepath.Join(configDir(), "config.json"), &config)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return config.CurrentContext, err
}

// contextAddress reads a docker context's address. Its folders are named by the
// digest of its name.
func contextAddress(name string) (address, error) {
	sum := sha256.Sum256([]byte(name))
	digest, contexts := hex.EncodeToString(sum[:]), filepath.Join(configDir(), "contexts")
	var meta struct {
		Endpoints map[string]struct {
			Host          string `json:"Host"`
			SkipTLSVerify bool   `json:"SkipTLSVerify"`
		} `json:"Endpoints"`
	}
	err := readJSON(filepath.Join(contexts, "meta", digest, "meta.json"), &meta)
	if err != nil {
		return address{}, engineError(err, "cannot read docker context %q", name).Hint("see: docker context ls; or set engine.host in sandbox.yaml")
	}
	end := meta.Endpoints["docker"]
	if end.Host == "" {
		return address{}, engineError(nil, "docker context %q has the address %q, which belljar cannot use", name, end.Host).Hint("set engine.host in sandbox.yaml to a unix://, tcp:// or ssh:// address")
	}
	at := address{host: end.Host, context: true, skipVerify: end.SkipTLSVerify}
	for name, file := range map[string]*string{"ca.pem": &at.ca, "cert.pem": &at.cert, "key.pem": &at.key} {
		name = filepath.Join(contexts, "tls", digest, "docker", name)
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			*file = name // one that cannot be read is an error of the client's
		}
	}
	return at, nil
}

// checkScheme refuses what the client would look up as a name.
func checkScheme(host string) error {
	scheme, _, _ := strings.Cut(host, "://")
	switch scheme {
	case "unix", "tcp", "http", "https", "ssh":
		return nil
	}
	return engineError(nil, "invalid engine host %q", host).Hint("write unix:///PATH, tcp://HOST:PORT or ssh://USER@HOST")
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return engineError(err, "reading %q", file).Hint("fix it, or set engine.host in sandbox.yaml")
	}
	return nil
}
