package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The tokens of a server that is attacked.
var tokens = map[string]string{
	"ann":    "ann-token-0123456789abcdef",
	"bob":    "bob-token-0123456789abcdef",
	"reader": "reader-token-0123456789abcdef",
	"judge":  "judge-token-0123456789abcdef",
	"boss":   "boss-token-0123456789abcdef",
	"old":    "old-token-0123456789abcdef",
}

// besiegeTCP starts a server on a port, with tokens. Without settings it has a profile
// "special", and no pool.
func besiegeTCP(t *testing.T, settings ...string) *attacked {
	t.Helper()
	needEngine(t)
	dir := socketDir(t)
	text := "tokens:\n"
	for name, rest := range map[string]string{
		"ann": "scopes: [run]", "bob": "scopes: [run]", "reader": "scopes: [read]", "judge": "scopes: [approve]",
		"boss": "scopes: [admin], profiles: [\"*\"]", "old": "scopes: [admin], expires: 2020-01-01T00:00:00Z",
	} {
		text += fmt.Sprintf("  - {name: %s, token: %s, %s}\n", name, tokens[name], rest)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &attacked{t: t, program: watched, dir: dir, unique: "e2e-" + filepath.Base(dir), network: "tcp", address: freeAddress(t)}
	if len(settings) == 0 {
		settings = []string{"pool: {min: 0, max: 0}", "profiles: {special: {timeout: 1m}}"}
	}
	s.configure("listen: tcp://"+s.address+", token_file: "+filepath.Join(dir, "tokens"), settings...)
	s.start()
	return s
}

// as is the same server for another caller.
func (s *attacked) as(name string) *attacked {
	return &attacked{t: s.t, network: s.network, address: s.address, client: s.client, token: tokens[name], unique: s.unique}
}

// A1 to A4: who has no token of the server, or comes from a page of another site, gets
// nothing.
func TestSidecarWithStrangers(t *testing.T) {
	t.Parallel()
	s := besiegeTCP(t)
	const run = `{"command": "echo a-command"}`
	good := "Bearer " + tokens["ann"]
	for _, c := range []struct {
		status int
		path   string
		header []string
	}{
		{200, "/v1/executions", []string{"Authorization", good}},
		{200, "/v1/executions", []string{"Authorization", "bearer  " + tokens["ann"]}},
		{401, "/v1/executions", nil},
		{401, "/v1/executions", []string{"Authorization", ""}},
		{401, "/v1/executions", []string{"Authorization", "Bearer"}},
		{401, "/v1/executions", []string{"Authorization", tokens["ann"]}},
		{401, "/v1/executions", []string{"Authorization", "Basic " + tokens["ann"]}},
		{401, "/v1/executions", []string{"Authorization", good + "x"}},
		{401, "/v1/executions", []string{"Authorization", good[:len(good)-1]}},
		{401, "/v1/executions", []string{"Authorization", "Bearer a-stranger-0123456789abcdef"}},
		{401, "/v1/executions", []string{"Authorization", "Bearer " + tokens["old"]}},
		{401, "/v1/executions", []string{"Authorization", "Bearer " + strings.Repeat("a", 10000)}},
		{401, "/v1/executions?token=" + tokens["ann"], nil},
		{401, "/v1/executions?access_token=" + tokens["ann"], nil},
		{401, "/v1/executions", []string{"Cookie", "token=" + tokens["ann"]}},
		{401, "/v1/executions", []string{"X-Forwarded-User", "boss", "X-Forwarded-For", "127.0.0.1"}},
		{403, "/v1/executions", []string{"Authorization", good, "Host", "evil.example"}},
		{403, "/v1/executions", []string{"Authorization", good, "Host", "localhost.evil.example"}},
		{403, "/v1/executions", []string{"Authorization", good, "Host", "192.0.2.1"}},
		{403, "/v1/executions", []string{"Authorization", good, "Origin", "https://evil.example"}},
		{403, "/v1/executions", []string{"Authorization", good, "Origin", "null"}},
		{403, "/v1/executions", []string{"Authorization", good, "Sec-Fetch-Site", "cross-site"}},
		{403, "/v1/executions", []string{"Authorization", good, "Sec-Fetch-Site", "same-site"}},
		{403, "/v1/executions", []string{"Authorization", good, "Content-Type", "text/plain", "Origin", "https://evil.example"}},
		{415, "/v1/executions", []string{"Authorization", good, "Content-Type", "text/plain"}},
		{415, "/v1/executions", []string{"Authorization", good, "Content-Type", "application/x-www-form-urlencoded"}},
	} {
		status, text := s.ask(http.MethodPost, c.path, run, c.header...)
		if status != c.status || status != http.StatusOK && !strings.Contains(text, `"status":`+fmt.Sprint(status)) {
			t.Errorf("%s %.200q: %d, want %d: %.300s", c.path, c.header, status, c.status, text)
		}
	}
	for _, path := range []string{"/v1/executions", "/v1/sessions", "/v1/profiles", "/v1/approvals", "/v1/images", "/v1/pools", "/v1/audit/head", "/metrics", "/openapi.json", "/", "/none"} {
		s.want(http.StatusUnauthorized, nil, http.MethodGet, path, "")
	}
	s.want(http.StatusForbidden, nil, http.MethodGet, "/healthz", "", "Host", "evil.example")
	var list struct{ Executions []struct{ Owner string } }
	s.as("boss").want(http.StatusOK, &list, http.MethodGet, "/v1/executions", "")
	if len(list.Executions) != 2 {
		t.Errorf("%+v ran", list)
	}
	s.as("ann").want(http.StatusUnprocessableEntity, nil, http.MethodPost, "/v1/executions?token="+tokens["ann"], run)
	s.saysNoToken()
}

// saysNoToken checks that no token is in the log, nor in what the server keeps.
func (s *attacked) saysNoToken() {
	s.t.Helper()
	s.stop(15)
	for name, token := range tokens {
		if strings.Contains(s.log.String(), token) {
			s.t.Errorf("the log has the token of %s: %s", name, s.log.String())
		}
		if out := tool(s.t, "sh", "-c", `grep -rlF -e "$1" "$2" || true`, "sh", token, filepath.Join(s.dir, "belljar")); out != "" {
			s.t.Errorf("the token of %s is in %s", name, out)
		}
	}
}

// What is one caller's does not exist for another one, and each may do only what its
// token is for.
func TestSidecarKeepsCallersApart(t *testing.T) {
	t.Parallel()
	s := besiegeTCP(t)
	ann, bob, reader, judge, boss := s.as("ann"), s.as("bob"), s.as("reader"), s.as("judge"), s.as("boss")
	session := s.sessionName()
	ann.want(http.StatusCreated, nil, http.MethodPost, "/v1/sessions", asJSON(object{"name": session}))
	id := ann.accepts(object{"command": "echo a secret; cat", "session": session, "stdin_open": true}, "Idempotency-Key", "a-key")
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/executions/" + id, ""},
		{"DELETE", "/v1/executions/" + id, ""},
		{"GET", "/v1/executions/" + id + "/events", ""},
		{"GET", "/v1/executions/" + id + "/output", ""},
		{"GET", "/v1/executions/" + id + "/output?stream=merged&follow=1", ""},
		{"POST", "/v1/executions/" + id + "/stdin?eof=1", "x"},
		{"POST", "/v1/executions/" + id + "/signal", `{"signal": "SIGKILL"}`},
		{"POST", "/v1/executions/" + id + "/resize", `{"rows": 1, "cols": 1}`},
		{"POST", "/v1/executions/" + id + "/touch", ""},
		{"GET", "/v1/sessions/" + session, ""},
		{"DELETE", "/v1/sessions/" + session, ""},
		{"GET", "/v1/sessions/" + session + "/files/etc/passwd", ""},
		{"GET", "/v1/sessions/" + session + "/files/work?tar=1", ""},
		{"PUT", "/v1/sessions/" + session + "/files/work/x", "x"},
		{"DELETE", "/v1/sessions/" + session + "/files/work/x", ""},
	} {
		status, answer := bob.ask(c.method, c.path, c.body)
		_, none := bob.ask(c.method, strings.NewReplacer(id, "none", session, "none").Replace(c.path), c.body)
		if status != http.StatusNotFound || strings.NewReplacer(id, "none", session, "none").Replace(answer) != none {
			t.Errorf("%s %s: %d, %s, want %s", c.method, c.path, status, answer, none)
		}
		if status, answer = reader.ask(c.method, c.path, c.body); status != http.StatusNotFound && (c.method == "GET" || status != http.StatusForbidden) {
			t.Errorf("reader: %s %s: %d, %s", c.method, c.path, status, answer)
		}
		judge.refused(c.method, c.path, c.body)
	}
	bob.want(http.StatusConflict, nil, "POST", "/v1/executions", asJSON(object{"command": "cat /work/*", "session": session}))
	bob.want(http.StatusConflict, nil, "POST", "/v1/sessions", asJSON(object{"name": session}))
	for _, path := range []string{"/v1/executions", "/v1/sessions"} {
		if _, text := bob.ask("GET", path, ""); strings.Contains(text, id) || strings.Contains(text, session) {
			t.Errorf("bob sees %s", text)
		}
	}
	if r := bob.runs(object{"command": "echo of bob"}, "Idempotency-Key", "a-key"); string(r.Stdout.Bytes()) != "of bob\n" {
		t.Errorf("bob's key: %+v", r)
	}
	for _, path := range []string{"/v1/images", "/v1/pools", "/v1/audit/head", "/metrics", "/v1/approvals"} {
		for _, who := range []*attacked{ann, reader} {
			who.refused("GET", path, "")
		}
		status := http.StatusOK
		if onPods() && path == "/v1/images" { // the nodes have them
			status = http.StatusUnprocessableEntity
		}
		boss.want(status, nil, "GET", path, "")
	}
	judge.want(http.StatusOK, nil, "GET", "/v1/approvals", "")
	reader.refused("POST", "/v1/executions", `{"command": "true"}`)
	reader.refused("POST", "/v1/policy/check", `{"command": "true"}`)
	judge.refused("POST", "/v1/executions", `{"command": "true"}`)
	ann.refused("POST", "/v1/executions", `{"command": "true", "profile": "special"}`)
	ann.refused("POST", "/v1/sessions", asJSON(object{"name": session + "-2", "profile": "special"}))
	ann.refused("POST", "/v1/policy/check", `{"command": "true", "profile": "special"}`)
	boss.want(http.StatusOK, nil, "GET", "/v1/executions/"+id, "")
	boss.want(http.StatusOK, nil, "GET", "/v1/sessions/"+session, "")
	ann.want(http.StatusOK, nil, "POST", "/v1/executions/"+id+"/stdin?eof=1", "typed")
	if r := ann.end(id).Result; string(r.Stdout.Bytes()) != "a secret\ntyped" {
		t.Errorf("%+v", r)
	}
	s.saysNoToken()
}

func (s *attacked) refused(method, path, body string) {
	s.t.Helper()
	s.want(http.StatusForbidden, nil, method, path, body)
}
