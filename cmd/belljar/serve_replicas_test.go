package main

import (
	"strings"
	"testing"

	"belljar/cmd/internal/replicas"
	"belljar/config"
)

func TestReplicasRefused(t *testing.T) {
	good := func() *config.Config {
		return &config.Config{
			Engine: config.Engine{Kind: config.EngineKubernetes},
			Serve:  config.Serve{Listen: "tcp://0.0.0.0:8443", TokenFile: "/t", TLSCert: "/c", TLSKey: "/k", Hosts: []string{"belljar.belljar.svc"}, Replicas: config.Replicas{Enabled: true}},
		}
	}
	for name, test := range map[string]struct {
		change func(*config.Config)
		want   string // "" for none
	}{
		"as it should be":     {func(*config.Config) {}, ""},
		"not enabled":         {func(c *config.Config) { *c = config.Config{} }, ""},
		"without TLS":         {func(c *config.Config) { c.Serve.TLSCert, c.Serve.Hosts = "", nil }, ""},
		"another engine":      {func(c *config.Config) { c.Engine.Kind = config.EngineDocker }, "pods of a cluster only"},
		"a unix socket":       {func(c *config.Config) { c.Serve.Listen = "unix:///run/x" }, "other replicas cannot reach serve.listen"},
		"any port":            {func(c *config.Config) { c.Serve.Listen = "tcp://0.0.0.0:0" }, "other replicas cannot reach serve.listen"},
		"without tokens":      {func(c *config.Config) { c.Serve.TokenFile = "" }, "cannot pass on client certificates"},
		"client certificates": {func(c *config.Config) { c.Serve.ClientCA = "/ca" }, "cannot pass on client certificates"},
		"no name":             {func(c *config.Config) { c.Serve.Hosts = nil }, "serve.hosts has none"},
		"an address":          {func(c *config.Config) { c.Serve.Hosts = []string{"10.0.0.1"} }, "serve.hosts has none"},
	} {
		c := good()
		test.change(c)
		if err := checkReplicas(c); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// A sidecar that starts again with its executions is the replica that their IDs name.
func TestReplicaNameStays(t *testing.T) {
	dir := t.TempDir()
	first, err := replicaName(dir)
	if err != nil || !replicas.CheckName(first) {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := replicaName(dir); err != nil || again != first {
		t.Errorf("%q, %v, and before %q", again, err, first)
	}
}
