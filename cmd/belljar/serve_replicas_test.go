package main

import (
	"strings"
	"testing"
	"time"

	"belljar/cmd/internal/replicas"
	"belljar/config"
	"belljar/sandbox"
)

// Once a bug: only belljar serve itself looked at this, and the doctor found nothing wrong with a configuration that it refused.
func TestReplicasRefused(t *testing.T) {
	good := func() *config.Config {
		return &config.Config{
			StateDir: "/s", Spool: sandbox.Spooling{Age: time.Hour},
			Engine: config.Engine{Kind: config.EngineKubernetes},
			Serve:  config.Serve{Listen: "tcp://0.0.0.0:8443", TokenFile: "/t", TLSCert: "/c", TLSKey: "/k", Hosts: []string{"belljar.belljar.svc"}, Replicas: config.Replicas{Enabled: true}},
		}
	}
	for name, test := range map[string]struct {
		change func(*config.Config)
		want   string // "" for none
	}{
		"as it should be":     {func(*config.Config) {}, ""},
		"not enabled":         {func(c *config.Config) { c.Serve = config.Serve{} }, ""},
		"without TLS":         {func(c *config.Config) { c.Serve.TLSCert, c.Serve.Hosts = "", nil }, ""},
		"another engine":      {func(c *config.Config) { c.Engine.Kind = config.EngineDocker }, "pods of a cluster only"},
		"a unix socket":       {func(c *config.Config) { c.Serve.Listen = "unix:///run/x" }, "other replicas cannot reach serve.listen"},
		"any port":            {func(c *config.Config) { c.Serve.Listen = "tcp://0.0.0.0:0" }, "other replicas cannot reach serve.listen"},
		"localhost":           {func(c *config.Config) { c.Serve.Listen = "tcp://localhost:8443" }, "each has its own loopback"},
		"loopback":            {func(c *config.Config) { c.Serve.Listen = "tcp://127.0.0.1:8443" }, "each has its own loopback"},
		"loopback of IPv6":    {func(c *config.Config) { c.Serve.Listen = "tcp://[::1]:8443" }, "each has its own loopback"},
		"mapped loopback":     {func(c *config.Config) { c.Serve.Listen = "tcp://[::ffff:127.0.0.1]:8443" }, "each has its own loopback"},
		"behind a proxy":      {func(c *config.Config) { c.Serve.Listen, c.Serve.Replicas.Address = "tcp://127.0.0.1:8443", "10.0.0.7" }, "each has its own loopback"},
		"on one machine":      {func(c *config.Config) { c.Serve.Listen, c.Serve.Replicas.Address = "tcp://127.0.0.2:8443", "127.0.0.2" }, ""},
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
		want := map[bool]verdict{true: verdictOK, false: verdictFail}[test.want == ""]
		if got := checkServe(c); got.Status != want || !strings.Contains(got.Text, test.want) {
			t.Errorf("%s: the doctor finds %v %q, want %q", name, got.Status, got.Text, test.want)
		}
	}
	c := good()
	c.Spool.Age = 0
	wantFinding(t, "replicas that keep nothing", checkServe(c), verdictFail, "keeps nothing of a command", "such as 1h")
	c.Serve = config.Serve{}
	wantFinding(t, "commands alone", checkServe(c), verdictWarn, "belljar serve keeps nothing of a command")
	c = good()
	c.StateDir = ""
	wantFinding(t, "no state", checkServe(c), verdictFail, "needs a state directory", "XDG_STATE_HOME")
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
