package e2e

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/images"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"go.yaml.in/yaml/v3"
)

// What these tests know of pods they ask the API server, or see on this machine, which is the cluster's
// one node: scripts/cluster starts it.

// podVariables are with which a belljar finds the cluster.
var podVariables = []string{"BELLJAR_ENGINE_KIND", "BELLJAR_ENGINE_KUBERNETES_NAMESPACE", "BELLJAR_ENGINE_KUBERNETES_IMAGE", "BELLJAR_ENGINE_KUBERNETES_PULL", "KUBECONFIG"}

// server is the API server.
type server struct {
	url, token, namespace string
	client                http.Client
}

var apiServer = sync.OnceValue(func() *server {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     string `yaml:"certificate-authority"`
			}
		}
		Users []struct{ User struct{ Token string } }
	}
	text, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	if err == nil {
		err = yaml.Unmarshal(text, &config)
	}
	if err != nil {
		panic(err)
	}
	in := config.Clusters[0].Cluster
	ca, err := os.ReadFile(in.CA)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	s := &server{url: in.Server, token: config.Users[0].User.Token, namespace: os.Getenv("BELLJAR_ENGINE_KUBERNETES_NAMESPACE")}
	s.client = http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	return s
})

// ask makes a request, whose path NAMESPACE stands in.
func (s *server) ask(method, path, body string, into any) error {
	request, err := http.NewRequest(method, s.url+strings.ReplaceAll(path, "NAMESPACE", s.namespace), strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.500s", method, path, answer.Status, text)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	return err
}

// podObject is what the tests read of a pod.
type podObject struct {
	Metadata struct {
		Name, UID           string
		Labels, Annotations map[string]string
	}
	Spec   struct{ Containers []struct{ Image string } }
	Status struct{ Phase string }
}

// pods are those of the tests' namespace in which something may still run.
func pods() (list []ofEngine) {
	var found, leases struct{ Items []json.RawMessage }
	for try := time.Duration(0); ; try++ {
		err := errors.Join(
			apiServer().ask("GET", "/api/v1/namespaces/NAMESPACE/pods", "", &found),
			apiServer().ask("GET", "/apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases", "", &leases))
		if err == nil {
			break
		} else if try == 10 {
			panic(err)
		}
		time.Sleep(try * 300 * time.Millisecond)
	}
	makers := map[string]string{}
	for _, text := range leases.Items {
		var lease struct {
			Metadata struct{ Name string }
			Spec     struct{ HolderIdentity string }
		}
		if json.Unmarshal(text, &lease) == nil {
			if holder := strings.Fields(lease.Spec.HolderIdentity); len(holder) > 1 {
				makers[lease.Metadata.Name] = holder[1]
			}
		}
	}
	for _, text := range found.Items {
		var pod podObject
		if json.Unmarshal(text, &pod) != nil || pod.Status.Phase == "Succeeded" || pod.Status.Phase == "Failed" {
			continue
		}
		c := ofEngine{id: pod.Metadata.UID, maker: makers[pod.Metadata.Labels["belljar.dev/owner"]], note: string(text), Session: pod.Metadata.Annotations["belljar.dev/session"]}
		c.Image.ID = pod.Spec.Containers[0].Image
		list = append(list, c)
	}
	return list
}

// podsEvents are what the cluster tells of the namespace.
func podsEvents(t *testing.T) string {
	t.Helper()
	var text json.RawMessage
	if err := apiServer().ask("GET", "/api/v1/namespaces/NAMESPACE/events", "", &text); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// podsInit is this machine's PID of a pod's init, 0 once it is gone.
func podsInit(uid string) int {
	for _, pid := range hostProcesses(uid) {
		args, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		status, _ := os.ReadFile("/proc/" + pid + "/status")
		_, inside, _ := strings.Cut(string(status), "\nNSpid:")
		inside, _, _ = strings.Cut(inside, "\n")
		if strings.HasPrefix(string(args), "/dev/belljar-init\x00") && strings.HasSuffix(inside, "\t1") {
			n := 0
			fmt.Sscan(pid, &n)
			return n
		}
	}
	return 0
}

// pausePod freezes a pod's main container.
func pausePod(t *testing.T, uid string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", podsInit(uid)))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		file, word := "/sys/fs/cgroup/freezer"+fields[2]+"/freezer.state", "FROZEN"
		if fields[1] == "" { // version 2
			file, word = "/sys/fs/cgroup"+fields[2]+"/cgroup.freeze", "1"
		}
		if fields[1] == "freezer" || fields[1] == "" && os.WriteFile(file, []byte(word), 0) == nil {
			if err := os.WriteFile(file, []byte(word), 0); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no control group of pod %s can be frozen: %s", uid, text)
}

// ofKubelet are the files of its node that every pod has.
var ofKubelet = []string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log"}

// ctr works with the node's containerd.
func ctr(args ...string) error {
	out, err := exec.Command(filepath.Join(os.Getenv("CLUSTER_RUNTIME"), "ctr"), append([]string{"-a", os.Getenv("CLUSTER") + "/containerd/sock", "-n", "k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ctr %q: %w: %s", args, err, out)
	}
	return err
}

// giveNode gives the node an image until the test ends.
func giveNode(t *testing.T, archive string, image v1.Image, tag name.Tag) {
	t.Helper()
	id, err := image.ConfigName()
	if err == nil {
		err = ctr("images", "import", archive)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ctr("images", "rm", "docker.io/"+tag.RepositoryStr()+":"+tag.TagStr(), id.String()) })
}

// recallImages has a belljar with a state of its own know the images that the others do: to look at one takes a
// pod.
func recallImages(t *testing.T, dir string) {
	t.Helper()
	known, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_STATE_HOME"), "belljar", "kubernetes", "image-*.json"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, from := range known {
		text, err := os.ReadFile(from)
		to := filepath.Join(dir, filepath.Base(from))
		if err == nil && strings.Contains(string(text), `"Reference":"belljar/base"`) {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// usePods makes a namespace for these tests, in which pods must be restricted, and gives the node the images: belljar under test, and
// the base image, which belljar makes without a cluster.
func usePods(dir string) (end func(), err error) {
	namespace := "belljar-e2e-" + strings.ToLower(rand.Text()[:8])
	ours := "localhost/" + namespace + ":test"
	for key, value := range map[string]string{"NAMESPACE": namespace, "IMAGE": ours, "PULL": "never"} {
		os.Setenv("BELLJAR_ENGINE_KUBERNETES_"+key, value)
	}
	os.Setenv("BELLJAR_LIMITS_CPUS", "0.5") // of which a pod asks its node for a tenth: else there is room for nine
	err = apiServer().ask("POST", "/api/v1/namespaces", `{"metadata": {"name": "`+namespace+`", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`, nil)
	end = func() {
		ctr("images", "rm", ours)
		apiServer().ask("DELETE", "/api/v1/namespaces/NAMESPACE", "", nil)
	}
	if err != nil {
		return end, err
	}
	account := func() error {
		return apiServer().ask("GET", "/api/v1/namespaces/NAMESPACE/serviceaccounts/default", "", nil)
	}
	for begun := time.Now(); account() != nil && time.Since(begun) < time.Minute; { // without it no pod is made
		time.Sleep(50 * time.Millisecond)
	}
	if err := account(); err != nil {
		return end, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return end, err
	}
	tree := newTree()
	tree.add(tar.Header{Name: "belljar", Mode: 0o755}, program)
	image, err := tree.image(v1.Config{})
	if err != nil {
		return end, err
	}
	store := images.Disk{Dir: filepath.Join(dir, "base")}
	if _, err := store.BuildBase(context.Background()); err != nil {
		return end, err
	}
	stored, err := layout.ImageIndexFromPath(store.Dir)
	if err != nil {
		return end, err
	}
	manifest, err := stored.IndexManifest()
	if err != nil {
		return end, err
	}
	base, err := stored.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return end, err
	}
	for tag, image := range map[string]v1.Image{ours: image, images.Base: base} {
		archive := filepath.Join(dir, "image.tar")
		ref, err := name.NewTag(tag)
		if err == nil {
			err = tarball.WriteToFile(archive, ref, image)
		}
		if err == nil {
			err = ctr("images", "import", archive)
		}
		if err != nil {
			return end, err
		}
	}
	out, err := exec.Command(binary, "run", "true").CombinedOutput() // from now on, each knows the base image
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return end, err
}
