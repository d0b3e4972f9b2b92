package images

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/google/go-cmp/cmp"

	"belljar/sandbox"
)

var _ sandbox.Images = (*Store)(nil)

func TestList(t *testing.T) {
	store := &Store{Client: &fakeEngine{listed: []image.Summary{
		{ID: "sha256:2", RepoTags: []string{"host:5000/b:1", "a:1"}, RepoDigests: []string{"host:5000/b@sha256:d"}, Size: 7, Created: 9},
		{ID: "sha256:1"},
		{ID: "sha256:0", RepoTags: []string{"<none>:<none>"}, RepoDigests: []string{"<none>@<none>"}},
	}}}
	got, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Listed{
		{Name: "<none>:<none>", ID: "sha256:0", Created: time.Unix(0, 0)},
		{Name: "<none>:<none>", ID: "sha256:1", Created: time.Unix(0, 0)},
		{Name: "a:1", ID: "sha256:2", Size: 7, Created: time.Unix(9, 0)},
		{Name: "host:5000/b:1", ID: "sha256:2", Digest: "sha256:d", Size: 7, Created: time.Unix(9, 0)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
