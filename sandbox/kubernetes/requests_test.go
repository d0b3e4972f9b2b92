//go:build kubernetes

package kubernetes_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
)

// api is the API server, through a proxy that counts requests. It sends who attaches on to the API server: frames do not pass through it.
type api struct {
	file string // a kubeconfig
	mu   sync.Mutex
	all  map[string]int // by method and kind; renewals of leases apart
}

// server is where the cluster's API server is, and what it takes for an administrator.
func server(t *testing.T) (at *url.URL, token string) {
	t.Helper()
	var config struct {
		Clusters []struct{ Cluster struct{ Server string } }
		Users    []struct{ User struct{ Token string } }
	}
	if err := json.Unmarshal([]byte(mustKubectl(t, "config", "view", "--raw", "-o", "json")), &config); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(config.Clusters[0].Cluster.Server)
	if err != nil {
		t.Fatal(err)
	}
	return at, config.Users[0].User.Token
}

var names = regexp.MustCompile(`/namespaces/[^/]+/([a-z]+)(/[^/]+)?(/[a-z]+)?`)

func countRequests(t *testing.T) *api {
	t.Helper()
	at, token := server(t)
	a := &api{file: filepath.Join(t.TempDir(), "config"), all: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(at) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 64},
		FlushInterval: -1,
	}
	t.Cleanup(proxy.Transport.(*http.Transport).CloseIdleConnections)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + r.URL.Path
		if parts := names.FindStringSubmatch(r.URL.Path); parts != nil {
			what = r.Method + " " + parts[1] + parts[3]
		}
		if r.URL.Query().Get("watch") != "" {
			what = strings.Replace(what, "GET", "WATCH", 1)
		}
		a.mu.Lock()
		a.all[what]++
		a.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/attach") {
			http.Redirect(w, r, at.JoinPath(r.URL.Path).String()+"?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	text := fmt.Sprintf(`clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, front.URL, token)
	if err := os.WriteFile(a.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// since is what came after before, without renewals, which come each 10 s whatever a process does; one that had no answer looks first.
func (a *api) since(before map[string]int) (each map[string]int, sum int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	each = maps.Clone(a.all)
	delete(each, "PUT leases")
	delete(each, "GET leases")
	for what, n := range before {
		if each[what] -= n; each[what] <= 0 {
			delete(each, what)
		}
	}
	for _, n := range each {
		sum += n
	}
	return each, sum
}

func (a *api) now() map[string]int {
	each, _ := a.since(nil)
	return each
}

// A pod takes six requests at most, from nothing to nothing, and a command in it none.
func TestRequests(t *testing.T) {
	t.Parallel()
	a := countRequests(t)
	e := open(t, func(c *kubernetes.Config) { c.File = a.file })
	create(t, e, newSpec(t)) // with the process's lease
	for name, c := range map[string]struct {
		session string
		most    int
	}{
		"pool":    {most: 4}, // made, watched, attached to, deleted
		"session": {session: "requests", most: 6},
	} {
		before := a.now()
		box := create(t, e, newSpec(t, func(s *sandbox.Spec) { s.Session = c.session }))
		ready := a.now()
		for range 20 {
			if out, _ := run(t, box, "echo on"); out != "on\n" {
				t.Errorf("%s: %q", name, out)
			}
			if _, err := box.Processes(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if each, n := a.since(ready); n != 0 {
			t.Errorf("%s: 20 commands took %v", name, each)
		}
		if err := box.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		each, n := a.since(before)
		if n > c.most {
			t.Errorf("%s: the pod took %d requests: %v", name, n, each)
		}
		t.Logf("%s: %v", name, each)
	}
}

// Twelve at once, and room for three: those three run, all others are busy, and none took more than a few requests to find out.
func TestManyAtAQuota(t *testing.T) {
	t.Parallel()
	in := ownNamespace(t, "many")
	quota(t, in, "pods=3")
	a := countRequests(t)
	e := open(t, func(c *kubernetes.Config) { c.File, c.Namespace = a.file, in })
	var all sync.WaitGroup
	var mu sync.Mutex
	var boxes []sandbox.Container
	base(t)
	for range 12 {
		spec := newSpec(t)
		all.Go(func() {
			box, err := e.Create(t.Context(), spec)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				boxes = append(boxes, box)
			} else if sandbox.CauseOf(err) != sandbox.CauseBusy {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if each := a.now(); len(boxes) != 3 || each["POST pods"] > 3*12 {
		t.Errorf("%d pods, %v", len(boxes), each)
	}
	for _, box := range boxes {
		if err := box.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// quota makes one, and waits until it counts.
func quota(t *testing.T, in, hard string) {
	t.Helper()
	mustKubectl(t, "-n", in, "create", "quota", "belljar-test-quota", "--hard="+hard)
	await(t, 30*time.Second, "the quota counts", func() bool {
		return mustKubectl(t, "-n", in, "get", "quota", "belljar-test-quota", "-o", "jsonpath={.status.used}") != ""
	})
}

// What a namespace refuses, it refuses with its own words.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make  []string
		want  sandbox.Cause
		words string
	}{
		"small quota": {[]string{"create", "quota", "small", "--hard=limits.memory=64Mi"}, sandbox.CauseInvalid, "exceeded quota: small"},
		"other quota": {[]string{"create", "quota", "other", "--hard=requests.storage=1Gi,pods=10"}, "", ""},
		"limit range": {nil, sandbox.CauseInvalid, "maximum memory usage per Container is 64Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := ownNamespace(t, strings.ReplaceAll(name, " ", "-"))
			if c.make != nil {
				mustKubectl(t, append([]string{"-n", in}, c.make...)...)
				await(t, 30*time.Second, "the quota counts", func() bool {
					return mustKubectl(t, "-n", in, "get", "quota", "-o", "jsonpath={.items[*].status.used}") != ""
				})
			} else {
				apply(t, `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l","namespace":"`+in+`"},"spec":{"limits":[{"type":"Container","max":{"memory":"64Mi"}}]}}`)
			}
			e := open(t, func(c *kubernetes.Config) { c.Namespace = in })
			box, err := e.Create(t.Context(), newSpec(t))
			if sandbox.CauseOf(err) != c.want || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v", err)
			}
			if box != nil {
				if err := box.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if pods := left(in); strings.Contains(pods, "pod/") {
				t.Errorf("left: %s", pods)
			}
		})
	}
}
