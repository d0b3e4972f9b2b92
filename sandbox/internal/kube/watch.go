package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Event is a change of a pod.
type Event struct {
	Type string // ADDED, MODIFIED or DELETED
	Pod  Pod
}

// WatchPod calls seen with each state of a pod after that of a resourceVersion, as Watch does.
func (c *Client) WatchPod(ctx context.Context, namespace, name, version string, seen func(Event) (done bool)) error {
	return c.Watch(ctx, PodsPath(namespace), ByName(name), version, func(kind string, object []byte) (bool, error) {
		e := Event{Type: kind}
		if err := json.Unmarshal(object, &e.Pod); err != nil {
			return false, err
		}
		return seen(e), nil
	})
}

// ErrWatching is of a watch that was open when its context ended: until then, as far as is known, the API server answered.
var ErrWatching = errors.New("the watch was open")

// WatchTime is after how long the API server ends a watch.
const WatchTime = 5 * time.Minute

// ByName is the selector of the object of a name.
func ByName(name string) (selector string) { return "metadata.name=" + name }

// Watch calls seen with each state of the objects of a path that a field selector selects after that of a resourceVersion, until it returns true or an error, or ctx ends.
// Without a version, the API server would first wait until it remembers what is the newest of all objects: seconds, where it has much to do. With
// 0 it begins with those that are there. A
// watch that it ends, as it does with each after a while, returns no error; one of a version that it does not remember is 410 Gone.
func (c *Client) Watch(ctx context.Context, path, selector, version string, seen func(kind string, object []byte) (done bool, err error)) error {
	query := url.Values{"watch": {"1"}, "resourceVersion": {version}, "fieldSelector": {selector}, "timeoutSeconds": {strconv.Itoa(int(WatchTime / time.Second))}}
	answer, err := c.request(ctx, http.MethodGet, path, query, nil)
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
			if ctx.Err() != nil {
				return fmt.Errorf("%w: %w", ErrWatching, ctx.Err())
			}
			return nil // its end, or that of the connection: who calls it, asks again
		}
		if line.Type == "ERROR" {
			return statusError(0, line.Object)
		}
		if done, err := seen(line.Type, line.Object); done || err != nil {
			return err
		}
	}
}
