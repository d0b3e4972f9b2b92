package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// raw sends bytes, and returns the statuses and all the text of the answers.
func (s *attacked) raw(sent string) (statuses []int, text string) {
	s.t.Helper()
	conn := s.dial()
	defer conn.Close()
	go io.WriteString(conn, sent) // a server may answer and close before it has read all
	conn.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(conn)
	for {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses, text
		}
		var all strings.Builder
		answer.Header.Write(&all)
		io.Copy(&all, answer.Body)
		answer.Body.Close()
		statuses, text = append(statuses, answer.StatusCode), text+all.String()
	}
}

// posting is a whole request that runs a command.
func posting(body string) string {
	return fmt.Sprintf("POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

const closing = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"

// What is no proper request is refused as the client's error, and nothing of the host
// comes back.
func TestSidecarWithHostileRequests(t *testing.T) {
	t.Parallel()
	s := besiegeOne(t, watched, "", "pool: {min: 0, max: 0}")
	get := func(path string) string { return "GET " + path + closing + "\r\n" }
	chunks := "POST /v1/executions" + closing + "Content-Type: application/json\r\n"
	const run, runs = `{"command": "echo ran"}`, "17\r\n" + `{"command": "echo ran"}` + "\r\n0\r\n\r\n"
	for _, c := range []struct {
		name, sent string
		want       string // the statuses
	}{
		{"a good one", posting(run), "200"},
		{"good chunks", chunks + "Transfer-Encoding: chunked\r\n\r\n" + runs, "200"},
		{"no HTTP", "hello\r\n\r\n", "400"},
		{"HTTP/0.9", "GET /\r\n\r\n", "400"},
		{"HTTP/1.0", "GET /healthz HTTP/1.0\r\n\r\n", "200"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404"},
		{"HTTP/3", "GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", "505"},
		{"no Host", "GET /healthz HTTP/1.1\r\n\r\n", "400"},
		{"two Hosts", "GET /healthz" + closing + "Host: localhost\r\n\r\n", "400"},
		{"a Host with a path", "GET /healthz HTTP/1.1\r\nHost: localhost/x\r\nConnection: close\r\n\r\n", "400"},
		{"absolute", get("http://localhost/healthz"), "200"},
		{"another's absolute", get("http://evil.example/healthz"), "403"},
		{"a proxy's", "CONNECT evil.example:443" + closing + "\r\n", "403"},
		{"OPTIONS *", "OPTIONS *" + closing + "\r\n", "404"},
		{"TRACE", "TRACE /healthz" + closing + "X: secret\r\n\r\n", "405"},
		{"a method", "G\x00T /healthz" + closing + "\r\n", "400"},
		{"a space in the path", get("/healthz /x"), "400"},
		{"a NUL in a header", "GET /healthz" + closing + "X: a\x00b\r\n\r\n", "400"},
		{"a header without colon", "GET /healthz" + closing + "X\r\n\r\n", "400"},
		{"a folded header", "GET /healthz" + closing + "X: a\r\n b\r\n\r\n", "200"},
		{"a huge header", "GET /healthz" + closing + "X: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "431"},
		{"many headers", "GET /healthz" + closing + strings.Repeat("X: a\r\n", 100_000) + "\r\n", "431"},
		{"a huge path", get("/" + strings.Repeat("a", 1<<20)), "431"},
		{"two lengths", chunks + "Content-Length: 23\r\nContent-Length: 5\r\n\r\n" + run, "400"},
		{"a list of lengths", chunks + "Content-Length: 23, 5\r\n\r\n" + run, "400"},
		{"a negative length", chunks + "Content-Length: -1\r\n\r\n" + run, "400"},
		{"a signed length", chunks + "Content-Length: +23\r\n\r\n" + run, "400"},
		{"a large length", chunks + "Content-Length: 99999999999999999999\r\n\r\n" + run, "400"},
		{"a blank before the colon", chunks + "Transfer-Encoding : chunked\r\n\r\n" + runs, "400"},
		{"unknown coding", chunks + "Transfer-Encoding: xchunked\r\n\r\n" + runs, "501"},
		{"two codings", chunks + "Transfer-Encoding: gzip, chunked\r\n\r\n" + runs, "501"},
		{"no chunks", chunks + "Transfer-Encoding: chunked\r\n\r\n" + run + "\r\n", "422"},
		{"a huge chunk", chunks + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + run, "422"},
		{"half a body", strings.Replace(posting(run), "Content-Length: 23", "Content-Length: 24", 1), "408"},
		{"a media type", strings.Replace(posting(run), "application/json", "application/xml", 1), "415"},
		{"no media type", strings.Replace(posting(run), "Content-Type: application/json\r\n", "", 1), "200"},
		{"no JSON", posting("{"), "422"},
		{"two values", posting(run + run), "422"},
		{"not an object", posting("null"), "422"},
		{"invalid UTF-8", posting("{\"command\": \"echo \xff\"}"), "422"},
		{"half a character", posting(`{"command": "echo \ud800"}`), "422"},
		{"a byte order mark", posting("\ufeff" + run), "422"},
		{"a NUL", posting(`{"command": "echo \u0000"}`), "422"},
		{"deep", posting(`{"command": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}"), "422"},
		{"deep objects", posting(`{"env": ` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + "}"), "422"},
		{"the same key twice", posting(`{"command": "echo one", "command": "echo two"}`), "422"},
		{"keys in another case", posting(`{"command": "echo one", "COMMAND": "echo two"}`), "422"},
		{"a huge number", posting(`{"command": "true", "timeout_seconds": 1e999}`), "422"},
		{"a large number", posting(`{"command": "true", "timeout_seconds": 1e300}`), "422"},
		{"no number", posting(`{"command": "true", "timeout_seconds": NaN}`), "422"},
		{"a fraction", posting(`{"command": "true", "limits": {"pids": 1.5}}`), "422"},
		{"too much", posting(`{"command": "true", "limits": {"memory_bytes": 9223372036854775808}}`), "422"},
		{"an ID", posting(`{"command": "true", "id": "../../etc"}`), "422"},
		{"an ID with lines", posting(`{"command": "true", "id": "a\r\nSet-Cookie: a=b"}`), "422"},
		{"a session", posting(`{"command": "true", "session": "../x"}`), "422"},
		{"many variables", posting(`{"command": "true", "env": {` + strings.Repeat(`"A": "a",`, 100_000) + `"A": "a"}}`), "422"},
		{"a key of many bytes", strings.Replace(posting(run), "Host", "Idempotency-Key: "+strings.Repeat("k", 256)+"\r\nHost", 1), "422"},
		{"a key with Latin-1", strings.Replace(posting(run), "Host", "Idempotency-Key: \xe9\r\nHost", 1), "422"},
		{"two keys", strings.Replace(posting(run), "Host", "Idempotency-Key: a\r\nIdempotency-Key: b\r\nHost", 1), "422"},
		{"two media types", strings.Replace(posting(run), "Host", "Content-Type: text/plain\r\nHost", 1), "422"},
		{"two waits", strings.Replace(posting(run), "executions ", "executions?wait=0&wait=1 ", 1), "422"},
		{"no number", get("/v1/executions/none?wait=NaN"), "404"},
		{"an event's number", "GET /v1/executions/none/events" + closing + "Last-Event-ID: -1\r\n\r\n", "404"},
	} {
		statuses, text := s.raw(c.sent)
		if got := strings.Trim(fmt.Sprint(statuses), "[]"); got != c.want || strings.Contains(text, "\nSet-Cookie:") {
			t.Errorf("%s: %q, want %s: %.600q", c.name, got, c.want, text)
		}
	}
	if r := s.runs(object{"command": "echo unharmed"}); string(r.Stdout.Bytes()) != "unharmed\n" {
		t.Errorf("%+v", r)
	}
}

// No name in a path leads anywhere but to what it names.
func TestSidecarWithHostilePaths(t *testing.T) {
	t.Parallel()
	s := besiegeOne(t, watched, "", "pool: {min: 0, max: 0}")
	session := s.sessionName()
	s.want(http.StatusCreated, nil, http.MethodPost, "/v1/sessions", asJSON(object{"name": session}))
	s.want(http.StatusOK, nil, http.MethodPost, "/v1/executions", `{"id": "mine", "command": "true"}`)
	for _, name := range []string{
		"..", ".", "%2e%2e", "%2e", "..%2f..%2f..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%2fetc%2fpasswd", "..%5c..%5cetc", "..%252f..%252fetc",
		"%00", "mine%00", "mine%0d%0aSet-Cookie:%20a=b", "%ff%fe", "%e2%80%ae", "mine%2f", "mine%2f..", "mine.journal", "owners.json", ".lock", "*", "%20", "MINE", strings.Repeat("a", 5000), strings.Repeat("%2e%2e%2f", 1000),
	} {
		for _, of := range []string{
			"GET /v1/executions/%s", "DELETE /v1/executions/%s", "GET /v1/executions/%s/events", "GET /v1/executions/%s/output", "POST /v1/executions/%s/stdin", "POST /v1/executions/%s/signal", "POST /v1/executions/%s/touch",
			"GET /v1/sessions/%s", "DELETE /v1/sessions/%s", "GET /v1/sessions/%s/files/etc/hostname", "GET /v1/sessions/%s?tar=1", "POST /v1/approvals/%s",
			"GET /v1/sessions/" + session + "/files/%s/../../../../../etc/passwd%%00", "PUT /v1/sessions/" + session + "/files/tmp/%s/x",
		} {
			body := ""
			if strings.HasSuffix(of, "signal") || strings.HasPrefix(of, "POST /v1/app") {
				body = `{"signal": "SIGTERM"}`
			}
			sent := fmt.Sprintf(of, name) + closing + "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
			statuses, text := s.raw(sent)
			moved := len(statuses) == 1 && statuses[0]/100 == 3 && strings.Contains(text, "Location: /") && !strings.Contains(text, "Location: //")
			own := strings.Contains(of, session) // whose container has such files, too
			if len(statuses) != 1 || statuses[0]/100 != 4 && !moved && !own || statuses[0] >= 500 || strings.Contains(text, "\nSet-Cookie:") || strings.Contains(text, `"owner"`) {
				t.Errorf("%.200q: %d %.300s", sent, statuses, text)
			}
		}
	}
	var list struct{ Sessions []struct{ Name string } }
	s.want(http.StatusOK, &list, http.MethodGet, "/v1/sessions", "")
	if len(list.Sessions) != 1 {
		t.Errorf("the sessions are %+v", list)
	}
	s.want(http.StatusOK, nil, http.MethodGet, "/v1/executions/mine", "")
}
