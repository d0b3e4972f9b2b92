package kube

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Access is how an API server is reached, and as whom.
type Access struct {
	Server     string // its URL
	ServerName string // in its certificate, "" for the URL's
	CA         []byte // who signed that, PEM; none: the system's
	Insecure   bool   // its certificate is not checked
	Namespace  string // the default
	From       string // the file that says so, or "the pod"

	token     func(ctx context.Context) (string, error) // nil for none
	cert, key []byte
	plugin    *plugin
}

// inPod is where a pod finds its service account.
const inPod = "/var/run/secrets/kubernetes.io/serviceaccount"

// Load finds an API server as kubectl does: a named file, or KUBECONFIG, or ~/.kube/config, and in a pod without any
// of these its service account. An empty context is the file's own.
func Load(file, context string) (*Access, error) {
	files := filepath.SplitList(cmp.Or(file, os.Getenv("KUBECONFIG")))
	if file != "" {
		files = []string{file}
	}
	named := len(files) > 0
	if home, err := os.UserHomeDir(); !named && err == nil {
		files = []string{filepath.Join(home, ".kube", "config")}
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) && file == "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		access, err := parse(text, filepath.Dir(name), context)
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", name, err)
		}
		access.From = name
		return access, nil
	}
	if named && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return nil, fmt.Errorf("none of the files of KUBECONFIG exists: %s", strings.Join(files, ", "))
	}
	return ofPod()
}

// ofPod is the access of the pod that this process runs in.
func ofPod() (*Access, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" {
		return nil, errors.New("there is no kubeconfig file, and this process is not in a pod")
	}
	ca, err := os.ReadFile(filepath.Join(inPod, "ca.crt"))
	if err != nil {
		return nil, err
	}
	namespace, err := os.ReadFile(filepath.Join(inPod, "namespace"))
	if err != nil {
		return nil, err
	}
	return &Access{
		Server: "https://" + net.JoinHostPort(host, cmp.Or(port, "443")), CA: ca, Namespace: strings.TrimSpace(string(namespace)), From: "the pod",
		token: tokenIn(filepath.Join(inPod, "token")),
	}, nil
}

// tokenIn reads a file each time: the kubelet replaces it.
func tokenIn(file string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		text, err := os.ReadFile(file)
		return strings.TrimSpace(string(text)), err
	}
}

// file is a kubeconfig, as far as it is used.
type file struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string
		Context struct{ Cluster, User, Namespace string }
	}
	Clusters []struct {
		Name    string
		Cluster cluster
	}
	Users []struct {
		Name string
		User user
	}
}

type cluster struct {
	Server     string
	CAData     string `yaml:"certificate-authority-data"`
	CA         string `yaml:"certificate-authority"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
	ServerName string `yaml:"tls-server-name"`
	Proxy      string `yaml:"proxy-url"`
}

type user struct {
	Token     string
	TokenFile string `yaml:"tokenFile"`
	CertData  string `yaml:"client-certificate-data"`
	Cert      string `yaml:"client-certificate"`
	KeyData   string `yaml:"client-key-data"`
	Key       string `yaml:"client-key"`
	Username  string
	As        string
	Provider  map[string]any `yaml:"auth-provider"`
	Exec      *plugin
}

func parse(text []byte, dir, context string) (*Access, error) {
	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	name := cmp.Or(context, f.CurrentContext)
	i := slices.IndexFunc(f.Contexts, func(c struct {
		Name    string
		Context struct{ Cluster, User, Namespace string }
	}) bool {
		return c.Name == name
	})
	if i < 0 {
		return nil, fmt.Errorf("there is no context %q", name)
	}
	to := f.Contexts[i].Context
	access := &Access{Namespace: to.Namespace}
	for _, c := range f.Clusters {
		if c.Name == to.Cluster {
			if err := access.takeCluster(c.Cluster, dir); err != nil {
				return nil, err
			}
		}
	}
	if access.Server == "" {
		return nil, fmt.Errorf("cluster %q of context %q has no server", to.Cluster, name)
	}
	for _, u := range f.Users {
		if u.Name == to.User {
			if err := access.takeUser(u.User, dir); err != nil {
				return nil, fmt.Errorf("user %q: %w", u.Name, err)
			}
		}
	}
	return access, nil
}

func (a *Access) takeCluster(c cluster, dir string) (err error) {
	if c.Proxy != "" {
		return errors.New("proxy-url is not supported: set HTTPS_PROXY")
	}
	a.Server, a.ServerName, a.Insecure = strings.TrimSuffix(c.Server, "/"), c.ServerName, c.Insecure
	a.CA, err = content(c.CAData, c.CA, dir)
	return err
}

func (a *Access) takeUser(u user, dir string) (err error) {
	if u.Username != "" || u.As != "" || u.Provider != nil {
		return errors.New("of the ways to log in, only tokens, client certificates and exec are supported")
	}
	if a.cert, err = content(u.CertData, u.Cert, dir); err == nil {
		a.key, err = content(u.KeyData, u.Key, dir)
	}
	switch {
	case u.TokenFile != "":
		a.token = tokenIn(in(dir, u.TokenFile))
	case u.Token != "":
		a.token = func(context.Context) (string, error) { return u.Token, nil }
	case u.Exec != nil:
		a.plugin = u.Exec
		a.plugin.dir = dir
	}
	return err
}

// content is what a field or the file that another one names has.
func content(data, name, dir string) ([]byte, error) {
	if data != "" {
		return base64.StdEncoding.DecodeString(data)
	}
	if name == "" {
		return nil, nil
	}
	return os.ReadFile(in(dir, name))
}

func in(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
