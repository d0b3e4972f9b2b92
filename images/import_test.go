package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"belljar/sandbox"
)

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// archiveOf is the archive that `docker save` would write.
func archiveOf(t *testing.T, images map[string]v1.Image) []byte {
	t.Helper()
	tags := map[name.Tag]v1.Image{}
	for ref, image := range images {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		tags[tag] = image
	}
	var buf bytes.Buffer
	if err := tarball.MultiWrite(tags, &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// layoutOf is the directory of an OCI layout with an image for each platform,
// their index inside another, as builders write it.
func layoutOf(t *testing.T, platforms ...string) string {
	t.Helper()
	inner := v1.ImageIndex(empty.Index)
	for _, text := range platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			t.Fatal(err)
		}
		image := withConfig(t, smallImage(t, text), func(c *v1.ConfigFile) { c.OS, c.Architecture = platform.OS, platform.Architecture })
		inner = mutate.AppendManifests(inner, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	dir := t.TempDir()
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: inner})); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tarOfDir is a directory's files as a tar, their names beginning with "./".
func tarOfDir(t *testing.T, dir string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestImportEachKind(t *testing.T) {
	store, docker := realEngine(t)
	tree := tarOf(t, "./bin/sh", "shell")
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	host := "linux/" + runtime.GOARCH
	for kind, file := range map[string]string{
		"tree":          tempFile(t, tree),
		"tree gzip":     tempFile(t, gzipped(t, tree)),
		"tree zstd":     tempFile(t, encoder.EncodeAll(tree, nil)),
		"archive":       tempFile(t, archiveOf(t, map[string]v1.Image{"other:1": smallImage(t, "archived")})),
		"layout":        layoutOf(t, "linux/s390x", host),
		"layout tar":    tempFile(t, tarOfDir(t, layoutOf(t, "linux/s390x", host))),
		"layout tar.gz": tempFile(t, gzipped(t, tarOfDir(t, layoutOf(t, host, "windows/amd64")))),
		"layout sparse": sparseLayout(t, host),
	} {
		t.Run(kind, func(t *testing.T) {
			ref := uniqueName(t, docker)
			got, err := store.Import(t.Context(), file, ref)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || got[0].Reference != ref || !strings.HasPrefix(got[0].ID, "sha256:") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// sparseLayout has only the host's content, like a copy of one platform.
func sparseLayout(t *testing.T, host string) string {
	t.Helper()
	dir := layoutOf(t, "linux/s390x", host)
	other := withConfig(t, smallImage(t, "linux/s390x"), func(c *v1.ConfigFile) { c.Architecture = "s390x" })
	digest, err := other.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "blobs", "sha256", digest.Hex)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestImportArchiveKeepsItsNames(t *testing.T) {
	store, docker := realEngine(t)
	one, two, three := uniqueName(t, docker), uniqueName(t, docker), uniqueName(t, docker)
	same := smallImage(t, "same")
	file := tempFile(t, gzipped(t, archiveOf(t, map[string]v1.Image{one: same, two: same, three: smallImage(t, "other")})))
	got, err := store.Import(t.Context(), file, "")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, image := range got {
		ids[image.Reference] = image.ID
	}
	if len(ids) != 3 || ids[one] != ids[two] || ids[one] == ids[three] {
		t.Errorf("%v", ids)
	}
	want, err := same.ConfigName()
	if err != nil || ids[one] != want.String() {
		t.Errorf("ID %s, want %s, %v", ids[one], want, err)
	}
	_, err = store.Import(t.Context(), file, "x")
	wantCause(t, err, sandbox.CauseImage, "contains 2 images", "without --tag")
}

func TestImportRefuses(t *testing.T) {
	tree := tarOf(t, "bin/sh", strings.Repeat("x", 5000))
	archive := archiveOf(t, map[string]v1.Image{"x:1": smallImage(t, strings.Repeat("x", 5000))})
	dirty := tarOf(t, "bin/sh", "", "a/../../etc/passwd", "")
	for kind, c := range map[string]struct {
		file, tag, say string
	}{
		"nothing":           {filepath.Join(t.TempDir(), "none"), "x", "no such file"},
		"empty":             {tempFile(t, nil), "x", "neither an image nor"},
		"text":              {tempFile(t, []byte(strings.Repeat("hello\n", 500))), "x", "not a tar"},
		"sources":           {tempFile(t, tarOf(t, "main.go", "package main")), "x", "no bin/sh"},
		"truncated tree":    {tempFile(t, tree[:1000]), "x", "damaged"},
		"truncated gzip":    {tempFile(t, gzipped(t, tree)[:40]), "x", "unexpected EOF"},
		"truncated archive": {tempFile(t, archive[:1500]), "", "reading"},
		"xz":                {tempFile(t, []byte("\xfd7zXZ\x00more")), "x", "unxz"},
		"bzip2":             {tempFile(t, []byte("BZh91AY")), "x", "bunzip2"},
		"climbing":          {tempFile(t, dirty), "x", `leads out of the archive with ".."`},
		"no name":           {tempFile(t, tree), "", "--tag"},
		"bad name":          {tempFile(t, tree), "A B", `"A B"`},
		"digest as name":    {tempFile(t, tree), "x@sha256:" + strings.Repeat("a", 64), "digest"},
		"plain directory":   {t.TempDir(), "x", "not an OCI layout"},
		"other platforms":   {layoutOf(t, "linux/s390x", "windows/amd64"), "x", `"linux/s390x" "windows/amd64"`},
		"bad manifest":      {tempFile(t, tarOf(t, "manifest.json", `{"no":"list"}`)), "", "manifest.json"},
		"no images":         {tempFile(t, tarOf(t, "manifest.json", `[]`)), "", "no image"},
		"missing config":    {tempFile(t, tarOf(t, "manifest.json", `[{"Config":"c","RepoTags":["x:1"],"Layers":["l"]}]`)), "", "not found"},
	} {
		t.Run(kind, func(t *testing.T) {
			engine := &fakeEngine{}
			_, err := (&Store{Client: engine}).Import(t.Context(), c.file, c.tag)
			wantCause(t, err, sandbox.CauseImage, c.say)
			if engine.images != nil {
				t.Error("it was loaded")
			}
		})
	}
}

func TestImportLeavesNothingBehind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	file := tempFile(t, gzipped(t, tarOf(t, "bin/sh", "")))
	if _, err := (&Store{Client: &fakeEngine{}}).Import(t.Context(), file, "belljar/base"); err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(tmp, "belljar-*"))
	if err != nil || len(entries) != 0 {
		t.Errorf("left %q, %v", entries, err)
	}
}

// A load's error comes inside a 200.
func TestLoadRefusedByTheEngine(t *testing.T) {
	engine := &fakeEngine{answer: `{"errorDetail":{"message":"no space left"},"error":"no space left"}`}
	_, err := (&Store{Client: engine}).Import(t.Context(), tempFile(t, tarOf(t, "bin/sh", "")), "x")
	wantCause(t, err, sandbox.CauseImage, "the engine refused", "no space left")
}

func TestImportOfALayerThatIsNotItsDigest(t *testing.T) {
	store, docker := realEngine(t)
	archive := archiveOf(t, map[string]v1.Image{uniqueName(t, docker): smallImage(t, "honest")})
	_, err := store.Import(t.Context(), tempFile(t, bytes.ReplaceAll(archive, []byte("honest"), []byte("forged"))), "")
	wantCause(t, err, sandbox.CauseImage, "but its configuration says")
}

func TestCancelledImport(t *testing.T) {
	store, docker := realEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Import(ctx, tempFile(t, gzipped(t, tarOf(t, "bin/sh", ""))), uniqueName(t, docker))
	wantCause(t, err, sandbox.CauseEngine, "canceled")
}

func FuzzImport(f *testing.F) {
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, content []byte) {
		store := &Store{Client: &fakeEngine{}, Progress: io.Discard}
		_, _ = store.Import(t.Context(), tempFile(t, content), Base)
	})
}
