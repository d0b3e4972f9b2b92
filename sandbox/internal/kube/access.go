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

	caFile, certFile, keyFile string // where they come from files, which may be replaced
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
	var found parts
	for _, name := range files {
		p, err := read(name)
		if errors.Is(err, os.ErrNotExist) && file == "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	if len(found) > 0 {
		return found.access(context)
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
	caFile := filepath.Join(inPod, "ca.crt")
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	namespace, err := os.ReadFile(filepath.Join(inPod, "namespace"))
	if err != nil {
		return nil, err
	}
	return &Access{
		Server: "https://" + net.JoinHostPort(host, cmp.Or(port, "443")), CA: ca, Namespace: strings.TrimSpace(string(namespace)), From: "the pod",
		token: tokenIn(filepath.Join(inPod, "token")), caFile: caFile,
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

// part is one file of several that are read as one. Names of files in it are relative to its directory.
type part struct {
	file
	from string
}

func read(name string) (p part, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return p, err
	}
	if err := yaml.Unmarshal(text, &p.file); err != nil {
		return p, fmt.Errorf("reading %q: %w", name, err)
	}
	p.from = name
	return p, nil
}

// parts are the files of KUBECONFIG. Where two of them have something of the same name, the first one counts.
type parts []part

func (all parts) access(name string) (*Access, error) {
	for _, p := range all {
		name = cmp.Or(name, p.CurrentContext)
	}
	for _, p := range all {
		for _, c := range p.Contexts {
			if c.Name != name {
				continue
			}
			access := &Access{From: p.from, Namespace: c.Context.Namespace}
			err := all.takeCluster(access, c.Context.Cluster)
			if err == nil && access.Server == "" {
				err = fmt.Errorf("cluster %q of context %q has no server", c.Context.Cluster, name)
			}
			if err == nil {
				err = all.takeUser(access, c.Context.User)
			}
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", p.from, err)
			}
			return access, nil
		}
	}
	var files []string
	for _, p := range all {
		files = append(files, p.from)
	}
	return nil, fmt.Errorf("reading %q: there is no context %q", files, name)
}

func (all parts) takeCluster(to *Access, name string) error {
	for _, p := range all {
		for _, c := range p.Clusters {
			if c.Name == name {
				return to.takeCluster(c.Cluster, filepath.Dir(p.from))
			}
		}
	}
	return nil
}

func (all parts) takeUser(to *Access, name string) error {
	for _, p := range all {
		for _, u := range p.Users {
			if u.Name != name {
				continue
			}
			if err := to.takeUser(u.User, filepath.Dir(p.from)); err != nil {
				return fmt.Errorf("user %q: %w", u.Name, err)
			}
			return nil
		}
	}
	return nil
}

func (a *Access) takeCluster(c cluster, dir string) (err error) {
	if c.Proxy != "" {
		return errors.New("proxy-url is not supported: set HTTPS_PROXY")
	}
	a.Server, a.ServerName, a.Insecure = strings.TrimSuffix(c.Server, "/"), c.ServerName, c.Insecure
	a.CA, a.caFile, err = content(c.CAData, c.CA, dir)
	return err
}

func (a *Access) takeUser(u user, dir string) (err error) {
	if u.Username != "" || u.As != "" || u.Provider != nil {
		return errors.New("of the ways to log in, only tokens, client certificates and exec are supported")
	}
	if a.cert, a.certFile, err = content(u.CertData, u.Cert, dir); err == nil {
		a.key, a.keyFile, err = content(u.KeyData, u.Key, dir)
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
func content(data, name, dir string) (text []byte, file string, err error) {
	switch {
	case data != "":
		text, err = base64.StdEncoding.DecodeString(data)
	case name != "":
		file = in(dir, name)
		text, err = os.ReadFile(file)
	}
	return text, file, err
}

func in(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
