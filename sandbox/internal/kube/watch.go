package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Event is a change of a pod.
type Event struct {
	Type string // ADDED, MODIFIED or DELETED
	Pod  Pod
}

// WatchPod calls seen with each state of a pod after that of a resourceVersion, until it returns true or ctx ends. Without
// one, the API server would first wait until it remembers what is the newest of all objects: seconds, where it has much to do. A watch
// that it ends, as it does with each after a while, returns no error; one of a version that it does not remember is 410 Gone.
func (c *Client) WatchPod(ctx context.Context, namespace, name, version string, seen func(Event) (done bool)) error {
	query := url.Values{"watch": {"1"}, "resourceVersion": {version}, "fieldSelector": {"metadata.name=" + name}, "timeoutSeconds": {"300"}}
	answer, err := c.request(ctx, http.MethodGet, PodsPath(namespace), query, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for lines := json.NewDecoder(answer.Body); ; {
		var line struct {
			Type   string
			Object json.RawMessage
		}
		if err := lines.Decode(&line); err != nil {
			return ctx.Err() // its end, or that of the connection: who calls it, asks again
		}
		e := Event{Type: line.Type}
		if line.Type == "ERROR" {
			return statusError(0, line.Object)
		}
		if err := json.Unmarshal(line.Object, &e.Pod); err != nil {
			return err
		}
		if seen(e) {
			return nil
		}
	}
}
