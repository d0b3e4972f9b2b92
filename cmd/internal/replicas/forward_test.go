package replicas_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// atHome is a cluster whose first replica has the session dev.
func atHome(t *testing.T) (c *cluster, home, other *one) {
	t.Helper()
	c = newCluster(t, 2)
	home, other = c.all[0], c.all[1]
	home.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	return c, home, other
}

// Once a bug: a file was sent by HTTP/1.0, where one that is cut looks whole, by a replica that is not its session's home.
func TestProtocolIsPassedOn(t *testing.T) {
	_, home, other := atHome(t)
	for _, o := range []*one{home, other} {
		for _, version := range []string{"HTTP/1.0", "HTTP/1.1"} {
			conn, err := net.Dial("tcp", o.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "GET /v1/sessions/dev/files/f %s\r\nHost: x\r\nConnection: close\r\nVia: 1.0 proxy\r\nAuthorization: Bearer ann\r\n\r\n", version)
			text, err := io.ReadAll(conn)
			if conn.Close(); err != nil || !strings.Contains(string(text), `"proto":"`+version+`"`) || !strings.Contains(string(text), `"by":"`+home.Name+`"`) {
				t.Errorf("%s, %v: %s", version, err, text)
			}
		}
	}
}

// Once a bug: what another replica could not read of a query was dropped on the way, and not refused.
func TestQueryIsPassedOn(t *testing.T) {
	_, home, other := atHome(t)
	const path = "/v1/sessions/dev/files/f?mode=0600;x&%zz"
	for _, o := range []*one{home, other} {
		if got := o.mustAsk("PUT", path, "text"); got.Asked != "PUT "+path || got.By != home.Name {
			t.Errorf("%+v", got)
		}
	}
}

// Once a bug: a page that may call a replica was refused by the next one, which has another name.
func TestOriginStays(t *testing.T) {
	_, home, other := atHome(t)
	home.handle = func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if http.NewCrossOriginProtection().Check(r) != nil {
			status = http.StatusForbidden
		}
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]any{"header": r.Header})
	}
	for _, site := range []string{"same-origin", "none"} {
		got := other.mustAsk("DELETE", "/v1/sessions/dev", "", "Origin: http://"+other.Listener.Addr().String(), "Sec-Fetch-Site: "+site, "Sec-Fetch-Mode: cors", "Accept-Language: en")
		if got.Status != 200 || got.Header["Origin"] != nil || got.Header["Sec-Fetch-Site"] != nil || got.Header["Sec-Fetch-Mode"] != nil || got.Header.Get("Accept-Language") != "en" {
			t.Errorf("%+v", got)
		}
	}
	if got := other.mustAsk("DELETE", "/v1/sessions/dev", "", "Origin: http://"+other.Listener.Addr().String()); got.Status != 200 {
		t.Errorf("without Sec-Fetch-Site: %+v", got)
	}
}

// Once a bug: a path that says the same in other characters was answered by whichever replica it came to.
func TestEscapedPaths(t *testing.T) {
	_, home, other := atHome(t)
	for _, path := range []string{"/v1/%73essions/dev", "/%76%31/sessions/dev", "/v1/session%73/d%65v", "/v1/sessions/dev/files/%73"} {
		if got := other.mustAsk("GET", path, ""); got.By != home.Name || got.Asked != "GET "+path {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := other.mustAsk("GET", "/v1%2Fsessions/dev", ""); got.By != other.Name {
		t.Errorf("%+v", got)
	}
}
