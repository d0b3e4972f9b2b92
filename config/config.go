// Package config turns sandbox.yaml, BELLJAR_* variables and flags into typed,
// validated settings.
//
// The one rule: nothing is ignored and nothing is guessed. An unknown key, a
// duplicate or a wrong unit is an error that names the file, the line
// and the key, and all errors are reported together.
//
//	c, err := config.Load(config.Options{Env: os.Environ(), NoWorkdir: true})
//	runner, err := belljar.Open(ctx, c)
//
// # Design
//
// A file that is found in the working directory may be anyone's. It replaces the
// operator's own, except for the keys that operator.go protects: if a file may not
// change a setting, its mere presence must not reset that setting either.
//
// One table, in keys.go, describes every key; the parser, the
// defaults, the variables and the schema are made from it. Each value is read
// where it is written, so that its errors name the place. Viper then only
// merges: it reads 30 as 30ns and would lower-case names.
package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
)

// Options say where settings come from.
type Options struct {
	Path      string   // the file, from --config; it must exist. Empty: search
	NoWorkdir bool     // do not search the working directory, which an agent may own
	Workdir   string   // absolute; empty: the process's
	Env       []string // "NAME=value", as os.Environ

	// Flags are the values of flags, as text, by their keys: "limits.memory".
	Flags map[string]string
}

// Config is all settings.
type Config struct {
	// File is the absolute path of the file that was read, or "". If no one
	// named it and it is not the operator's, some keys keep the operator's values.
	File string

	Engine    Engine
	Admission sandbox.Admission
	Serve     Serve
	Spool     sandbox.Spooling
	Audit     Audit

	// Profiles always holds sandbox.DefaultProfile, the file's top level, from
	// which the others inherit key by key.
	Profiles map[string]sandbox.Profile
	// StateDir is the user's state directory, or "" if that is
	// unknown.
	StateDir string

	settings []Setting
}

// Engine selects the container engine.
type Engine struct {
	Kind    string // EngineAuto, EngineDocker, EngineOCI or EngineKubernetes
	Host    string // empty: DOCKER_HOST, the docker context, then the default socket
	Runtime string // of the default profile; empty for the engine's default
	Init    string // a program, absolute; empty: this one, and NoInit: none
	Limits  string // LimitsRequired or LimitsBestEffort

	Kubernetes Kubernetes
}

// Kubernetes is where the pods of EngineKubernetes are made, and what all of them have.
type Kubernetes struct {
	Kubeconfig     string // absolute; empty: as kubectl finds one
	Context        string
	Namespace      string
	Image          string // of belljar itself
	Pull           sandbox.PullPolicy
	StartTimeout   time.Duration `mapstructure:"start_timeout"`
	NodeSelector   []string      `mapstructure:"node_selector"` // KEY=VALUE
	Tolerations    []string      // KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT
	Labels         []string      // KEY=VALUE
	PriorityClass  string        `mapstructure:"priority_class"`
	PullSecrets    []string      `mapstructure:"pull_secrets"`
	Seccomp        string        // a file of the nodes; empty: the runtime's profile
	UserNamespaces bool          `mapstructure:"user_namespaces"`
}

// What to do where limits on memory, processors and processes cannot be had.
const (
	LimitsRequired   = "required"    // no container is made
	LimitsBestEffort = "best-effort" // containers have none, and each result says so
)

// The kinds of engines.
const (
	EngineAuto   = "auto" // docker where it answers, else oci
	EngineDocker = "docker"
	EngineOCI    = "oci"

	EngineKubernetes = "kubernetes"
)

// NoInit is the Engine.Init of an engine that starts commands itself.
const NoInit = "none"

// Serve configures the sidecar.
type Serve struct {
	Listen    string   // "unix:///…" or "tcp://…"
	TokenFile string   `mapstructure:"token_file"` // absolute, or "", as the next three
	TLSCert   string   `mapstructure:"tls_cert"`
	TLSKey    string   `mapstructure:"tls_key"`
	ClientCA  string   `mapstructure:"client_ca"`
	Hosts     []string // of the Host header
	Origins   []string // such as "https://ci.example.com"
	Insecure  bool     // no TLS needed

	MaxConnections int           `mapstructure:"max_connections"`
	MaxRequests    int           `mapstructure:"max_requests"`
	MaxBody        int64         `mapstructure:"max_body"` // bytes
	DrainTimeout   time.Duration `mapstructure:"drain_timeout"`

	Replicas Replicas
}

// Replicas are several sidecars that callers use as one.
type Replicas struct {
	Enabled   bool
	Address   string // an IP; empty: the one that the API server is reached from
	Namespace string // of what they write down for each other; empty: that of the pods
	CA        string // absolute, or ""
}

// Profile is the profile of that name, whose Policy is never nil.
func (c *Config) Profile(name string) (sandbox.Profile, error) {
	p, ok := c.Profiles[name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(c.Profiles)), ", ")
		return p, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("no profile %q", name), Hint: "use one of: " + known}
	}
	return p, nil
}

// Load reads the configuration. If settings are wrong, the error is Problems with
// all of them. No file at all is no error.
func Load(o Options) (*Config, error) {
	if o.Workdir == "" {
		var err error
		if o.Workdir, err = os.Getwd(); err != nil {
			return nil, fmt.Errorf("finding the working directory: %w", err)
		}
	}
	env := map[string]string{}
	for _, kv := range o.Env {
		name, text, _ := strings.Cut(kv, "=")
		env[name] = text
	}
	first, own, err := search(o, env)
	if err != nil {
		return nil, err
	}
	s, problems := readSources(o, env, first, own)
	merged, err := s.mergeAll()
	if err != nil {
		return nil, err
	}
	problems = append(problems, checkTogether(merged)...)
	if problems = append(problems, unknownVariables(env, merged)...); len(problems) > 0 {
		return nil, problems.tidy()
	}
	return build(s, merged, belljarPaths(first.path, own.path, env), env)
}
