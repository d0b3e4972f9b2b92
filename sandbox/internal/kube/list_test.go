package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"testing"
)

// Once a bug: what did not fit into one answer could not be listed at all.
func TestListInParts(t *testing.T) {
	const all = 1201
	broken := false
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		limit, _ := strconv.Atoi(query.Get("limit"))
		from, _ := strconv.Atoi(query.Get("continue"))
		if query.Get("labelSelector") != "a=b" || limit == 0 {
			t.Errorf("asked %q", r.URL)
		}
		if broken && from > 0 {
			w.WriteHeader(http.StatusGone)
			return
		}
		page := map[string]any{"metadata": map[string]string{}}
		var items []Lease
		for i := from; i < min(all, from+limit); i++ {
			items = append(items, Lease{Metadata: Meta{Name: fmt.Sprint(i)}})
		}
		if page["items"] = items; from+limit < all {
			page["metadata"] = map[string]string{"continue": strconv.Itoa(from + limit)}
		}
		json.NewEncoder(w).Encode(page)
	})
	list, err := List[Lease](t.Context(), c, LeasesPath("n"), url.Values{"labelSelector": {"a=b"}})
	if err != nil || len(list) != all {
		t.Fatalf("%d, error %v", len(list), err)
	}
	for i, l := range list {
		if l.Metadata.Name != fmt.Sprint(i) {
			t.Fatalf("%s is number %d", l.Metadata.Name, i)
		}
	}
	broken = true
	if list, err := List[Lease](t.Context(), c, LeasesPath("n"), url.Values{"labelSelector": {"a=b"}}); CodeOf(err) != http.StatusGone || list != nil {
		t.Errorf("%d, error %v: a part is not all", len(list), err)
	}
}
