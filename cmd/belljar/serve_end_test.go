package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"belljar/config"
)

// Once a bug: a Deployment killed belljar while it ended what it had canceled. The comments say what a change of drain_timeout needs.
func TestWhoStopsItWaits(t *testing.T) {
	c, err := config.Load(config.Options{NoWorkdir: true, Path: "../../sandbox.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(text string, pattern string) time.Duration {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%s: not found", pattern)
		}
		n, _ := strconv.Atoi(m[1])
		return time.Duration(n) * time.Second
	}
	for file, test := range map[string]struct {
		waits  string
		before bool // it has a preStop hook
	}{
		"kubernetes/deployment.yaml": {`terminationGracePeriodSeconds: (\d+)`, true},
		"kubernetes.yaml":            {`terminationGracePeriodSeconds: (\d+)`, false},
		"compose.yaml":               {`stop_grace_period: (\d+)s`, false},
		"belljar.service":            {`TimeoutStopSec=(\d+)s`, false},
	} {
		raw, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		text, least := string(raw), c.Serve.DrainTimeout+afterDrain
		if test.before {
			least += seconds(text, `preStop: \{sleep: \{seconds: (\d+)\}\}`)
		}
		waits, said := seconds(text, test.waits), seconds(text, `drain_timeout \+ (\d+)s`)
		if waits < least || waits != c.Serve.DrainTimeout+said {
			t.Errorf("deploy/%s waits for %v, and says drain_timeout + %v: it takes up to %v", file, waits, said, least)
		}
	}
	docs, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	if said := seconds(string(docs), `at most (\d+) seconds after .serve.drain_timeout`); said < afterDrain || said > afterDrain+10*time.Second {
		t.Errorf("docs/deploy.md says %v, and it is %v", said, afterDrain)
	}
}
