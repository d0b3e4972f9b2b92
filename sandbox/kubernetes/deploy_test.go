//go:build kubernetes

package kubernetes_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// local has the images that this cluster has.
func local(text string) string {
	return strings.NewReplacer("registry.example.com/belljar:1", "localhost/belljar:test", "registry.example.com/app:1", baseImage).Replace(text)
}

const deployDir = "../../deploy/kubernetes"

// certificate is one for the service, and for addresses, which signs itself.
func certificate(t *testing.T, addresses ...net.IP) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"belljar.belljar.svc"}, IPAddresses: addresses, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

const callerToken = "a-token-of-this-test-alone"

// What deploy/kubernetes has is taken by the API server, and works: belljar in the cluster, with the Role's rights and no other.
func TestDeployed(t *testing.T) {
	monitored := false
	t.Cleanup(func() { // after the namespaces, whose controller asks for all kinds of objects
		if monitored {
			mustKubectl(t, "delete", "crd", "servicemonitors.monitoring.coreos.com")
		}
	})
	for _, name := range []string{"belljar", "belljar-sandboxes"} {
		mustKubectl(t, "create", "namespace", name)
		t.Cleanup(func() { mustKubectl(t, "delete", "namespace", name, "--timeout=5m") })
	}
	files, err := filepath.Glob(filepath.Join(deployDir, "*.yaml"))
	if err != nil || len(files) < 9 {
		t.Fatalf("%q, error %v", files, err)
	}
	for _, file := range files {
		switch filepath.Base(file) {
		case "kustomization.yaml":
			continue
		case "servicemonitor.yaml":
			apply(t, monitors)
			monitored = true
			await(t, 2*time.Minute, "the API server knows ServiceMonitors", func() bool {
				_, err := kubectl("get", "servicemonitors", "-A")
				return err == nil
			})
		}
		if out, err := kubectl("apply", "--dry-run=server", "--validate=strict", "-f", file); err != nil {
			t.Errorf("%s: %v", file, err)
		} else if strings.Contains(out, "would violate PodSecurity") {
			t.Errorf("%s: %s", file, out)
		}
	}
	t.Cleanup(func() {
		mustKubectl(t, "delete", "clusterrole,clusterrolebinding", "belljar-nodes", "--ignore-not-found")
	})
	all := mustKubectl(t, "kustomize", deployDir)
	if !strings.Contains(all, "image: registry.example.com/belljar:1") {
		t.Error("the Deployment's image is not the one of config.yaml")
	}

	cert, key := certificate(t)
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"tls.crt": cert, "tls.key": key, "ca.crt": cert, "tokens.yaml": fmt.Appendf(nil, "tokens:\n  - {name: test, token: %s, scopes: [run], profiles: [default]}\n", callerToken),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustKubectl(t, "-n", "belljar", "create", "secret", "generic", "belljar-tokens", "--from-file="+filepath.Join(dir, "tokens.yaml"))
	mustKubectl(t, "-n", "belljar", "create", "secret", "generic", "belljar-tls", "--type=kubernetes.io/tls", "--from-file="+filepath.Join(dir, "tls.crt"), "--from-file="+filepath.Join(dir, "tls.key"), "--from-file="+filepath.Join(dir, "ca.crt"))
	apply(t, local(all))
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := kubectl("-n", "belljar", "describe", "pods")
			logs, _ := kubectl("-n", "belljar", "logs", "deployment/belljar")
			t.Logf("%s\n%s", out, logs)
		}
	})
	if _, err := kubectl("-n", "belljar", "rollout", "status", "deployment/belljar", "--timeout=6m"); err != nil {
		t.Fatal(err)
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "belljar.belljar.svc"}, DisableKeepAlives: true}, Timeout: time.Minute}
	addresses := func() []string {
		t.Helper()
		list := strings.Fields(mustKubectl(t, "-n", "belljar", "get", "pods", "-l", "app.kubernetes.io/name=belljar", "--field-selector=status.phase=Running",
			"-o", `go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.status.podIP}}{{"\n"}}{{end}}{{end}}`))
		if len(list) != 2 {
			t.Fatalf("%q", list)
		}
		return list
	}
	run := func(address, token, command, want string) {
		t.Helper()
		request, err := http.NewRequest(http.MethodPost, "https://"+address+":8443/v1/executions", strings.NewReader(command))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "belljar.belljar.svc"
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		var flat bytes.Buffer
		json.Compact(&flat, text)
		if err != nil || !strings.Contains(flat.String(), want) {
			t.Errorf("%s, error %v, want %s", text, err, want)
		}
	}
	first := addresses()
	run(first[0], callerToken, `{"command": "echo $(id -u) here; exit 3"}`, `"stdout":"65534 here\n"`)
	run(first[1], "another-token-of-20-characters", "{}", `"unauthorized"`)
	run(first[0], callerToken, `{"command": "echo by one >x", "session": "dev"}`, `"status":"success"`)
	run(first[1], callerToken, `{"command": "cat x", "session": "dev"}`, `"stdout":"by one\n"`)

	// A rolling restart loses no session.
	mustKubectl(t, "-n", "belljar", "rollout", "restart", "deployment/belljar")
	if _, err := kubectl("-n", "belljar", "rollout", "status", "deployment/belljar", "--timeout=6m"); err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses() {
		if slices.Contains(first, address) {
			t.Errorf("%s was there before", address)
		}
		run(address, callerToken, `{"command": "cat x", "session": "dev"}`, `"stdout":"by one\n"`)
	}

	// What the doctor says there. Nothing enforces the NetworkPolicy in this cluster.
	text, err := kubectl("-n", "belljar", "exec", "deployment/belljar", "--", "/belljar", "doctor", "--format", "json")
	if err != nil {
		t.Errorf("belljar doctor: %v", err)
	}
	var doctor struct {
		Checks []struct{ Name, Status, Finding string }
	}
	if err := json.Unmarshal([]byte(text), &doctor); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	found := map[string]string{}
	for _, c := range doctor.Checks {
		found[c.Name] = c.Status + " " + c.Finding
	}
	for name, want := range map[string]string{
		"engine": "ok kubernetes: v1.", "rights": "ok this user may do all", "admission": "ok the namespace takes", "pod-seccomp": "ok a pod has a filter", "pod-users": "warn pods could have user namespaces of their own",
		"network-policy": "warn a pod of the namespace reaches the API server", "image": "ok", "command": "ok", "serve": "ok",
	} {
		if !strings.HasPrefix(found[name], want) {
			t.Errorf("the doctor's %s: %q", name, found[name])
		}
	}

	// What it decided is written down.
	if text, err := kubectl("-n", "belljar", "exec", "deployment/belljar", "--", "/belljar", "audit", "verify"); err != nil || !strings.HasPrefix(text, "ok: ") || strings.Contains(text, "no records") {
		t.Errorf("%s, error %v", text, err)
	}

	mustKubectl(t, "-n", "belljar-sandboxes", "delete", "pods", "-l", "belljar.dev/kind=session", "--grace-period=1")
	// On SIGTERM it ends what it made.
	mustKubectl(t, "-n", "belljar", "delete", "deployment", "belljar", "--cascade=foreground", "--timeout=4m")
	await(t, 2*time.Minute, "belljar's pods and leases are gone", func() bool { return left("belljar-sandboxes") == "" })
}

// monitors is what the Prometheus operator brings, as far as a ServiceMonitor of ours goes.
const monitors = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"servicemonitors.monitoring.coreos.com"},
"spec":{"group":"monitoring.coreos.com","scope":"Namespaced","names":{"plural":"servicemonitors","singular":"servicemonitor","kind":"ServiceMonitor"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
"jobLabel":{"type":"string"},"selector":{"type":"object","properties":{"matchLabels":{"type":"object","additionalProperties":{"type":"string"}}}},
"endpoints":{"type":"array","items":{"type":"object","properties":{"port":{"type":"string"},"scheme":{"type":"string","enum":["http","https"]},"path":{"type":"string"},
"authorization":{"type":"object","properties":{"credentials":{"type":"object","properties":{"name":{"type":"string"},"key":{"type":"string"}}}}},
"tlsConfig":{"type":"object","properties":{"serverName":{"type":"string"},"ca":{"type":"object","properties":{"secret":{"type":"object","properties":{"name":{"type":"string"},"key":{"type":"string"}}}}}}}}}}}}}}}}]}}`
