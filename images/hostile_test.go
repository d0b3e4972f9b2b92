package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"belljar/sandbox"
)

// members is a tar of those headers; each with a size contains zeros.
func members(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func shell(size int64) tar.Header { return tar.Header{Name: "bin/sh", Mode: 0o755, Size: size} }

func zstded(t *testing.T, content []byte) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return encoder.EncodeAll(content, nil)
}

// sparseTar is the tar that GNU tar writes for a file of one hole.
func sparseTar(t *testing.T, format, size string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"truncate", "-s", size, dir + "/bin/sh"},
		{"tar", "--sparse", "--format=" + format, "-C", dir, "-cf", dir + "/tar", "bin"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	return mustRead(t, dir+"/tar")
}

// packedLayer is an image whose layer is stored unchanged.
func packedLayer(t *testing.T, plain, packed []byte) v1.Image {
	t.Helper()
	diffID, _, err := v1.SHA256(bytes.NewReader(plain))
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: packedAs{static.NewLayer(packed, types.DockerLayer), diffID}})
	if err != nil {
		t.Fatal(err)
	}
	return withConfig(t, image, func(c *v1.ConfigFile) { c.OS, c.Architecture = "linux", "amd64" })
}

type packedAs struct {
	v1.Layer
	diffID v1.Hash
}

func (p packedAs) DiffID() (v1.Hash, error) { return p.diffID, nil }

// savedAs is a docker archive of such an image.
func savedAs(t *testing.T, image v1.Image) []byte {
	t.Helper()
	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	all, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := all[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	packed, err := io.ReadAll(layer)
	if err != nil {
		t.Fatal(err)
	}
	return tarOf(t, "manifest.json", `[{"Config":"c","RepoTags":["x:1"],"Layers":["l"]}]`, "c", string(config), "l", string(packed))
}

func laidOut(t *testing.T, image v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image})); err != nil {
		t.Fatal(err)
	}
	return dir
}

// refuses checks that a file is refused, that nothing of it is loaded, and that
// no temporary file is left.
func refuses(t *testing.T, store *Store, file, say string) {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	engine := &fakeEngine{}
	store.Client = engine
	_, err := store.Import(t.Context(), file, "x:1")
	wantCause(t, err, sandbox.CauseImage, say)
	if engine.loaded != nil {
		t.Errorf("%d bytes were sent to the engine", len(engine.loaded))
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestImportRefusesBombs(t *testing.T) {
	const size = 8 << 20
	small := defaultBounds
	small.grace = 1 << 20
	zeros := members(t, shell(size))
	packed := gzipped(t, zeros)
	image := packedLayer(t, zeros, packed)
	thrice := packedLayer(t, zeros, bytes.Repeat(gzipped(t, zeros[:size/40]), 40))
	const ratio, damaged = "more than 100 times its size", "not a tar"
	for kind, c := range map[string]struct{ file, say string }{
		"gzip":                 {tempFile(t, packed), ratio},
		"gzip of many members": {tempFile(t, bytes.Repeat(gzipped(t, make([]byte, size/40)), 40)), ratio},
		"gzip in its end":      {tempFile(t, append(gzipped(t, members(t, shell(0))), gzipped(t, make([]byte, size))...)), ratio},
		"zstd":                 {tempFile(t, zstded(t, zeros)), ratio},
		"archive":              {tempFile(t, savedAs(t, image)), ratio},
		"archive, members":     {tempFile(t, savedAs(t, thrice)), ratio},
		"archive in gzip":      {tempFile(t, gzipped(t, savedAs(t, image))), ratio},
		"layer of zstd":        {tempFile(t, savedAs(t, packedLayer(t, zeros, zstded(t, zeros)))), ratio},
		"layout":               {laidOut(t, image), ratio},
		"layout tar":           {tempFile(t, tarOfDir(t, laidOut(t, image))), ratio},
		"sparse, old":          {tempFile(t, sparseTar(t, "gnu", "4T")), ratio},
		"sparse":               {tempFile(t, sparseTar(t, "pax", "4T")), ratio},
		"claims":               {tempFile(t, claim(1<<40)), damaged},
		"claims in gzip":       {tempFile(t, gzipped(t, claim(1<<40))), damaged},
	} {
		t.Run(kind, func(t *testing.T) { refuses(t, &Store{bounds: small}, c.file, c.say) })
	}
}

// claim is a header of a file without its content.
func claim(size int64) []byte {
	var buf bytes.Buffer
	h := shell(size)
	_ = tar.NewWriter(&buf).WriteHeader(&h)
	return buf.Bytes()
}

func TestImportBounds(t *testing.T) {
	small := bounds{bytes: 64 << 10, entries: 20, ratio: 1 << 20}
	many := make([]tar.Header, 21)
	for i := range many {
		many[i] = shell(0)
	}
	half := members(t, append([]tar.Header{shell(0)}, many[:10]...)...)
	twice := tarOf(t, "manifest.json", `[{"Config":"c","RepoTags":["x:1"],"Layers":["l","m"]}]`, "c", twoLayers(t, half), "l", string(half), "m", string(half)+"\x00")
	for kind, c := range map[string]struct {
		file []byte
		say  string
	}{
		"bytes":          {members(t, shell(64<<10)), "more than 64 KiB"},
		"bytes, packed":  {gzipped(t, members(t, shell(64<<10))), "more than 64 KiB"},
		"bytes behind":   {append(members(t, shell(0)), make([]byte, 64<<10)...), "more than 64 KiB"},
		"members":        {members(t, many...), "more members"},
		"members, twice": {twice, "more members"},
		"parents":        {members(t, shell(0), tar.Header{Name: strings.Repeat("d/", 900) + "f"}), "more members"},
	} {
		t.Run(kind, func(t *testing.T) { refuses(t, &Store{bounds: small}, tempFile(t, c.file), c.say) })
	}
}

// What is dropped from a layer leaves room for the rest: it is read once more.
func TestImportOfManyMembersWithoutPrivileges(t *testing.T) {
	all := []tar.Header{shell(0), {Name: "su", Mode: 0o4755}}
	for i := range 13 {
		all = append(all, tar.Header{Name: fmt.Sprint(i), Mode: 0o644})
	}
	d := newDisk(t)
	d.bounds = bounds{bytes: 1 << 20, entries: 20, ratio: 1 << 20}
	if _, err := d.Import(t.Context(), tempFile(t, members(t, all...)), "x:1"); err != nil {
		t.Error(err)
	}
}

// twoLayers is a configuration of a tar, and of the same tar with another byte.
func twoLayers(t *testing.T, layer []byte) string {
	t.Helper()
	first, _, err := v1.SHA256(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := v1.SHA256(bytes.NewReader(append(layer[:len(layer):len(layer)], 0)))
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(v1.ConfigFile{OS: "linux", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{first, second}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(config)
}

func TestImportRefusesTooManyMembers(t *testing.T) {
	few := defaultBounds
	few.entries /= 10 // so many are read in a second, also with the race detector
	h := shell(0)
	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tar")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	thousand := bytes.Repeat(header.Bytes(), 1000)
	for range 51 {
		if _, err := f.Write(thousand); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	refuses(t, &Store{bounds: few}, file, "more members")
}

func TestImportRefusesWhatNoRootMayHold(t *testing.T) {
	long := strings.Repeat("d/", 2100) + "f"
	pax := map[string]string{"SCHILY.xattr.user.x": strings.Repeat("x", 200<<10)}
	for kind, c := range map[string]struct {
		h   tar.Header
		say string
	}{
		"disk":            {tar.Header{Name: "dev/sda", Typeflag: tar.TypeBlock, Devmajor: 8}, `"dev/sda" is a device`},
		"disk as null":    {tar.Header{Name: "dev/null", Typeflag: tar.TypeBlock, Devmajor: 1, Devminor: 3}, "is a device"},
		"memory as null":  {tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 1}, "is a device"},
		"null elsewhere":  {tar.Header{Name: "./tmp/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, "is a device"},
		"overlay's":       {tar.Header{Name: "etc", Typeflag: tar.TypeChar}, "is a device"},
		"long path":       {tar.Header{Name: long}, "too long for Linux"},
		"long part":       {tar.Header{Name: strings.Repeat("x", 256)}, "too long for Linux"},
		"long target":     {tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: long}, "too long for Linux"},
		"longest":         {tar.Header{Name: strings.Repeat("d/", 300<<10)}, "too long for Linux"},
		"extra records":   {tar.Header{Name: "f", PAXRecords: pax}, "extra records"},
		"user -1":         {tar.Header{Name: "f", Uid: 1<<32 - 1}, "belongs to user 4294967295"},
		"climbing":        {tar.Header{Name: "a/../../f"}, `leads out of the archive with ".."`},
		"climbing link":   {tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../../etc/shadow"}, `leads out of the archive with ".."`},
		"type of its own": {tar.Header{Name: "f", Typeflag: 'Z'}, "unknown type"},
	} {
		t.Run(kind, func(t *testing.T) {
			tree := members(t, shell(0), c.h)
			refuses(t, &Store{}, tempFile(t, tree), c.say)
			refuses(t, &Store{}, tempFile(t, savedAs(t, packedLayer(t, tree, gzipped(t, tree)))), c.say)
		})
	}
}

func TestImportRefusesHostileArchives(t *testing.T) {
	big := strings.Repeat(" ", maxMetadata+1)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	out, blocking := t.TempDir(), t.TempDir()
	if err := os.Symlink(tempFile(t, []byte(`{"manifests":[]}`)), out+"/index.json"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(blocking+"/index.json", 0o600); err != nil {
		t.Fatal(err)
	}
	loop := members(t, tar.Header{Name: "manifest.json", Size: 0}, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "a"})
	loop = append(tarOf(t, "manifest.json", `[{"Config":"a","RepoTags":["x:1"],"Layers":["a"]}]`)[:1024], loop[512:]...)
	for kind, c := range map[string]struct{ file, say string }{
		"manifest":      {tempFile(t, tarOf(t, "manifest.json", big)), "larger than 4 MiB"},
		"configuration": {tempFile(t, tarOf(t, "manifest.json", `[{"Config":"c","Layers":[]}]`, "c", big)), "larger than 4 MiB"},
		"many images":   {tempFile(t, tarOf(t, "manifest.json", "["+strings.Repeat("{},", maxImages)+"{}]")), "more than 256 images"},
		"link to self":  {tempFile(t, loop), `"a" is not found`},
		"index":         {tempFile(t, tarOf(t, "index.json", big)), "larger than 4 MiB"},
		"indexes":       {tempFile(t, fanOut(t)), "more than 256 images"},
		"FIFO":          {fifo, "not a regular file"},
		"device":        {"/dev/zero", "not a regular file"},
		"link outside":  {out, "not an OCI layout"},
		"FIFO inside":   {blocking, "not a regular file"},
	} {
		t.Run(kind, func(t *testing.T) { refuses(t, &Store{}, c.file, c.say) })
	}
}

// fanOut is a layout of indexes that each list the next one many times.
func fanOut(t *testing.T) []byte {
	t.Helper()
	var files []string
	index := []byte(`{"manifests":[]}`)
	for range maxIndexes - 1 {
		hash, size, err := v1.SHA256(bytes.NewReader(index))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, blobName(hash), string(index))
		entry := v1.Descriptor{MediaType: types.OCIImageIndex, Digest: hash, Size: size}
		if index, err = json.Marshal(v1.IndexManifest{Manifests: append(make([]v1.Descriptor, 0, 100), repeat(entry, 100)...)}); err != nil {
			t.Fatal(err)
		}
	}
	return tarOf(t, append(files, "index.json", string(index))...)
}

func repeat(entry v1.Descriptor, count int) []v1.Descriptor {
	all := make([]v1.Descriptor, count)
	for i := range all {
		all[i] = entry
	}
	return all
}

// debootstrapped is the base's tree plus other parts of a distribution's tree.
func debootstrapped(t *testing.T) []byte {
	t.Helper()
	base, err := baseTree(mustRead(t, hostBusybox(t)), []string{"find", "id", "sh", "stat"})
	if err != nil {
		t.Fatal(err)
	}
	more := members(t,
		tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3},
		tar.Header{Name: "run/initctl", Typeflag: tar.TypeFifo, Mode: 0o600},
		tar.Header{Name: "bin/su", Mode: 0o4755, Size: 10},
		tar.Header{Name: "bin/wall", Mode: 0o2755, Size: 10},
		tar.Header{Name: "bin/linked", Typeflag: tar.TypeLink, Linkname: "bin/busybox", Mode: 0o4755},
		tar.Header{Name: "bin/ping", Mode: 0o755, Size: 10, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}},
		tar.Header{Name: "var/mail/", Typeflag: tar.TypeDir, Mode: 0o2775, Gid: 8},
	)
	return append(base[:len(base)-1024], more...)
}

// Parts of distributions' trees that containers do not need are left out, and
// reported.
func TestImportLeavesOutPrivileges(t *testing.T) {
	store, docker := realEngine(t)
	tree := debootstrapped(t)
	for kind, file := range map[string]string{
		"tree":    tempFile(t, tree),
		"archive": tempFile(t, gzipped(t, savedAs(t, packedLayer(t, tree, gzipped(t, tree))))),
		"layout":  laidOut(t, packedLayer(t, tree, gzipped(t, tree))),
	} {
		t.Run(kind, func(t *testing.T) {
			var said strings.Builder
			store := &Store{Client: store.Client, Progress: &said}
			tag := uniqueName(t, docker)
			if _, err := store.Import(t.Context(), file, tag); err != nil {
				t.Fatal(err)
			}
			script := `find / -xdev -perm /6000 -type f; find / -xdev \( -type p -o -type b \); find /bin/su /bin/ping /bin/linked | while read f; do stat -c '%a %n' $f; done; stat -c '%a %g' /var/mail`
			out, err := exec.Command("docker", "run", "--rm", "--network=none", tag, "sh", "-c", script).CombinedOutput()
			if want := "755 /bin/su\n755 /bin/ping\n755 /bin/linked\n2775 8\n"; err != nil || string(out) != want {
				t.Errorf("got %q, %v; want %q", out, err, want)
			}
			for _, want := range []string{"device nodes", `1, such as in "dev/null"`, "FIFOs", "extended attributes", "setuid and setgid bits", `3, such as in "bin/su"`} {
				if !strings.Contains(said.String(), want) {
					t.Errorf("%q does not say %q", said.String(), want)
				}
			}
		})
	}
}

// A small file of holes becomes one of zeros.
func TestImportFillsSparseFiles(t *testing.T) {
	for _, format := range []string{"gnu", "pax"} {
		engine := &fakeEngine{}
		if _, err := (&Store{Client: engine}).Import(t.Context(), tempFile(t, sparseTar(t, format, "1M")), Base); err != nil {
			t.Fatal(err)
		}
		if len(engine.loaded) < 1<<20 {
			t.Errorf("%s: %d bytes loaded", format, len(engine.loaded))
		}
	}
}

// `docker save` before 25 stores equal layers once, with links.
func TestImportFollowsLinksBetweenLayers(t *testing.T) {
	tree := tarOf(t, "bin/sh", "shell")
	config := twoLayers(t, tree)
	var said v1.ConfigFile
	if err := json.Unmarshal([]byte(config), &said); err != nil {
		t.Fatal(err)
	}
	said.RootFS.DiffIDs[1] = said.RootFS.DiffIDs[0]
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	archive := tarOf(t, "manifest.json", `[{"Config":"c","RepoTags":["belljar/base"],"Layers":["a/layer.tar","b/layer.tar"]}]`, "c", string(text), "a/layer.tar", string(tree))
	link := members(t, tar.Header{Name: "b/layer.tar", Typeflag: tar.TypeSymlink, Linkname: "../a/layer.tar"})
	if _, err := (&Store{Client: &fakeEngine{}}).Import(t.Context(), tempFile(t, append(archive[:len(archive)-1024], link...)), ""); err != nil {
		t.Error(err)
	}
}

// One layer listed many times is small to read, and large to unpack: ten thousand
// kept belljar and the engine busy for minutes, even after SIGTERM. So did names.
func TestImportRefusesRepetition(t *testing.T) {
	layer := members(t, shell(1<<20))
	diffID, _, err := v1.SHA256(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	archive := func(layers, names int) string {
		config, err := json.Marshal(v1.ConfigFile{OS: "linux", RootFS: v1.RootFS{Type: "layers", DiffIDs: slices.Repeat([]v1.Hash{diffID}, layers)}})
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := json.Marshal([]described{{Config: "c", Layers: slices.Repeat([]string{"l"}, layers), RepoTags: slices.Repeat([]string{"x:1"}, names)}})
		if err != nil {
			t.Fatal(err)
		}
		return tempFile(t, tarOf(t, "manifest.json", string(manifest), "c", string(config), "l", string(layer)))
	}
	for name, test := range map[string]struct{ file, want string }{
		"layers": {archive(10_000, 1), "10000 layers, more than the limit of 127"},
		"bytes":  {archive(20, 1), "the engine would unpack more than 16 MiB"},
		"names":  {archive(1, 257), "more than 256 names"},
	} {
		t.Run(name, func(t *testing.T) {
			engine := &fakeEngine{}
			store := &Store{Client: engine, bounds: bounds{bytes: 16 << 20, entries: 1000, ratio: 100, grace: 16 << 20}}
			_, err := store.Import(t.Context(), test.file, "")
			wantCause(t, err, sandbox.CauseImage, test.want)
		})
	}
}
