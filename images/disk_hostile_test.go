package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"belljar/sandbox"
)

// layered is an image of layers as they are.
func layered(t *testing.T, layers ...[]byte) v1.Image {
	t.Helper()
	image := empty.Image
	for _, layer := range layers {
		diffID, _, err := v1.SHA256(bytes.NewReader(layer))
		if err != nil {
			t.Fatal(err)
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: packedAs{static.NewLayer(gzipped(t, layer), types.DockerLayer), diffID}}); err != nil {
			t.Fatal(err)
		}
	}
	return withConfig(t, image, func(c *v1.ConfigFile) { c.OS, c.Architecture = "linux", "amd64" })
}

// keep stores an image under a name, unchecked as a pull does.
func keep(t *testing.T, d *Disk, tag string, image v1.Image) (sandbox.Image, error) {
	t.Helper()
	ref, err := reference.ParseNormalizedNamed(tag)
	if err != nil {
		t.Fatal(err)
	}
	images := tagged{}
	if err := images.add(reference.TagNameOnly(ref).(reference.NamedTagged), image); err != nil {
		t.Fatal(err)
	}
	got, err := d.load(t.Context(), tag, images)
	if err != nil {
		return sandbox.Image{}, err
	}
	return got[0], nil
}

func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}
}

func hardLink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to, Mode: 0o666}
}

func file(name string) tar.Header { return tar.Header{Name: name, Mode: 0o666, Size: 1} }

func dir(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o777}
}

// No layer, whatever it contains, changes anything outside of the image's root.
func TestDiskUnpacksNothingOutside(t *testing.T) {
	type layer = []tar.Header
	up := strings.Repeat("../", 20)
	for name, layers := range map[string][]layer{
		"absolute link":           {{link("l", "OUT"), file("l/f")}},
		"climbing link":           {{link("l", up+"OUT"), file("l/f")}},
		"link of another layer":   {{link("l", "OUT")}, {file("l/f"), dir("l/d"), link("l/s", "x")}},
		"link to a link":          {{link("k", "OUT"), link("l", "k")}, {file("l/f")}},
		"link in place of a dir":  {{dir("d"), file("d/f")}, {link("d", "OUT")}, {file("d/f"), dir("d/e")}},
		"link in place of a file": {{link("f", "OUT/canary")}, {file("f")}},
		"hard link, absolute":     {{hardLink("h", "OUT/canary")}},
		"hard link, climbing":     {{hardLink("h", up+"OUT/canary")}},
		"hard link by a link":     {{link("l", "OUT"), hardLink("h", "l/canary")}},
		"hard link to a link":     {{link("l", "OUT/canary"), hardLink("h", "l")}, {file("h")}},
		"climbing name":           {{file(up + "OUT/f")}},
		"climbing inside":         {{dir("a"), file("a/../../../f")}},
		"absolute name":           {{file("/OUT/f")}},
		"whiteout by a link":      {{link("l", "OUT")}, {file("l/.wh.canary")}},
		"whiteout of a link":      {{link("l", "OUT")}, {file(".wh.l")}},
		"whiteout of the parent":  {{dir("a")}, {file("a/.wh...")}},
		"whiteout of itself":      {{dir("a"), file("a/f")}, {file("a/.wh..")}},
		"whiteout of no name":     {{dir("a"), file("a/f")}, {file("a/.wh.")}},
		"whiteout, climbing":      {{file(".wh.." + "/../../OUT/canary")}},
		"opaque by a link":        {{link("l", "OUT")}, {file("l/.wh..wh..opq")}},
		"opaque root":             {{link("l", "OUT"), file("f")}, {file(".wh..wh..opq")}},
		"root is a link":          {{link(".", "OUT"), file("f")}},
		"root is a link, rooted":  {{link("/", "OUT"), file("f")}},
		"root of another mode":    {{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0}, file("f")}},
		"etc is a link":           {{link("etc", "OUT")}},
		"etc is a climbing link":  {{link("etc", up+"OUT")}},
		"etc is a loop":           {{link("etc", "etc")}},
		"etc is a file":           {{file("etc")}},
		"hosts is a link":         {{dir("etc"), link("etc/hosts", up+"OUT/hosts"), link("etc/resolv.conf", "OUT/new")}},
		"hosts is canary":         {{dir("etc"), link("etc/hosts", "OUT/canary"), link("tmp", "OUT"), link("work", up+"OUT/w")}},
		"long by links":           {{dir(strings.Repeat("d/", 1000)), link("l", strings.Repeat("d/", 1000))}, {file("l/" + strings.Repeat("d/", 1000) + "l/" + strings.Repeat("e/", 10) + "f")}},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			out := filepath.Join(tmp, "out")
			if err := os.MkdirAll(out+"/dir", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(out+"/canary", []byte("alive"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := treeOf(t, out)
			var content [][]byte
			for _, headers := range layers {
				var set layer
				for _, h := range headers {
					h.Name, h.Linkname = strings.Replace(h.Name, "OUT", out[1:], 1), strings.Replace(h.Linkname, "OUT", out, 1)
					if !strings.HasPrefix(h.Name, "/") && strings.HasPrefix(h.Name, out[1:]) {
						h.Name = "/" + h.Name
					}
					set = append(set, h)
				}
				content = append(content, members(t, set...))
			}
			d := &Disk{Dir: filepath.Join(tmp, "images")}
			got, err := keep(t, d, "x", layered(t, content...))
			if err != nil {
				wantCause(t, err, sandbox.CauseImage)
			}
			if after := treeOf(t, out); !maps.Equal(before, after) {
				t.Errorf("outside of the root: %v, before %v", after, before)
			}
			if entries, _ := os.ReadDir(tmp); len(entries) != 2 {
				t.Errorf("beside the store: %v", entries)
			}
			if err != nil { // nothing of it is left
				if _, err := d.Prune(t.Context(), false); err != nil {
					t.Error(err)
				}
				if left := inventory(t, d); len(left) != 0 {
					t.Errorf("left %v", left)
				}
				return
			}
			root := mustRoot(t, d, got.ID)
			if info, err := os.Lstat(root); err != nil || info.Mode() != fs.ModeDir|0o755 {
				t.Errorf("the root is %v, %v", info.Mode(), err)
			}
		})
	}
}

// treeOf is a tree's files with their modes, owners, links and contents.
func treeOf(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		about := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprintf("%v %d:%d", info.Mode(), about.Uid, about.Gid)
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d %q", info.ModTime().Unix(), content)
			if len(content) > 100 {
				text = text[:100]
			}
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text += " to " + to
		}
		rel, err := filepath.Rel(root, name)
		found[rel] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What no root may have is refused, or left out with a notice.
func TestDiskLeavesOutPrivileges(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"disk":   {Typeflag: tar.TypeBlock, Name: "dev/sda", Devmajor: 8},
		"memory": {Typeflag: tar.TypeChar, Name: "dev/mem", Devmajor: 1, Devminor: 1},
		"type":   {Typeflag: 'Z', Name: "f"},
		"user":   {Name: "f", Uid: 1<<32 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			_, err := keep(t, d, "x", layered(t, members(t, h)))
			wantCause(t, err, sandbox.CauseImage, fmt.Sprintf("%q", h.Name))
			if names := diskNames(t, d); names != "" {
				t.Errorf("names %q", names)
			}
		})
	}
	var said strings.Builder
	d := newDisk(t)
	d.Progress = &said
	got, err := keep(t, d, "x", layered(t, members(t,
		tar.Header{Name: "su", Mode: 0o6755}, hardLink("su2", "su"), tar.Header{Typeflag: tar.TypeLink, Name: "su3", Linkname: "su", Mode: 0o4755},
		tar.Header{Typeflag: tar.TypeDir, Name: "mail/", Mode: 0o2775},
		tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
		tar.Header{Typeflag: tar.TypeFifo, Name: "fifo", Mode: 0o666},
		tar.Header{Name: "capable", Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "\x01", "SCHILY.xattr.user.x": "y", "SCHILY.xattr.trusted.overlay.opaque": "y"}},
	)))
	if err != nil {
		t.Fatal(err)
	}
	root := mustRoot(t, d, got.ID)
	for name, text := range treeOf(t, root) {
		if kind := text[0]; kind == 'p' || kind == 'D' || kind == 'c' || strings.HasPrefix(text, "u") || strings.HasPrefix(text, "gr") {
			t.Errorf("%s: %s", name, text)
		}
		if n, _ := syscall.Listxattr(filepath.Join(root, name), nil); n > 0 {
			t.Errorf("%s: %d bytes of extended attributes", name, n)
		}
	}
	if info, err := os.Stat(root + "/mail"); err != nil || info.Mode()&fs.ModeSetgid == 0 {
		t.Errorf("mail: %v, %v", info.Mode(), err)
	}
	for _, want := range []string{"setuid and setgid bits of the image: 2", "device nodes of the image: 1", "FIFOs of the image: 1", "extended attributes of the image: 1"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q does not say %q", said.String(), want)
		}
	}
}

func TestDiskBounds(t *testing.T) {
	small := bounds{bytes: 64 << 10, entries: 20, ratio: 1 << 20}
	ratio := bounds{bytes: 1 << 30, entries: 20, ratio: 100, grace: 1 << 20}
	many := make([]tar.Header, 21)
	for i := range many {
		many[i] = file("f")
	}
	named := bounds{bytes: 1 << 30, entries: 20, ratio: 1 << 20, names: 100}
	deep := func(name string) string { return strings.Repeat(name+"/", 900) + "f" }
	slow := bounds{bytes: 1 << 30, entries: 1 << 20, ratio: 1 << 20, time: time.Second}
	holes := sparseTar(t, "pax", "1G")
	for name, c := range map[string]struct {
		bounds bounds
		image  v1.Image
		say    string
	}{
		"bytes":                   {small, layered(t, members(t, shell(64<<10))), "more than 64 KiB"},
		"bytes, in layers":        {small, layered(t, members(t, shell(32<<10)), members(t, shell(31<<10))), "more than 64 KiB"},
		"members":                 {small, layered(t, members(t, many...)), "more members"},
		"in layers":               {small, layered(t, members(t, many[:10]...), members(t, many[10:]...)), "more members"},
		"parents":                 {small, layered(t, members(t, file(deep("a")))), "more members"},
		"parents by links":        {small, layered(t, members(t, link("l", deep("a")), file("l/f"))), "more members"},
		"parents, a link changed": {small, layered(t, members(t, link("l", "."), file("l/f"), link("l/l", deep("a")), file("l/g"))), "more members"},
		"parents, a hard link":    {small, layered(t, members(t, link("l", "."), link("k", deep("a")), file("l/f"), hardLink("l/l", "k"), file("l/g"))), "more members"},
		"gzip":                    {ratio, layered(t, members(t, shell(8<<20))), "more than 100 times"},
		"zstd":                    {ratio, packedLayer(t, members(t, shell(8<<20)), zstded(t, members(t, shell(8<<20)))), "more than 100 times"},
		"sparse":                  {ratio, layered(t, holes), "more than 100 times"},
		"sparse, plain":           {ratio, packedLayer(t, holes, holes), "more than 100 times"},
		"bytes behind":            {ratio, layered(t, append(members(t, shell(1)), make([]byte, 8<<20)...)), "more than 100 times"},
		"names":                   {named, layered(t, members(t, file(strings.Repeat("x", 60)), link("l", strings.Repeat("y", 60)))), "longer than"},
		"links":                   {slow, layered(t, maze(t)), "not unpacked after 1s"},
		"damaged":                 {ratio, layered(t, []byte(strings.Repeat("x", 1024))), "invalid tar header"},
		"cut":                     {ratio, layered(t, members(t, shell(4096))[:2048]), "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			d.bounds = c.bounds
			_, err := keep(t, d, "x", c.image)
			wantCause(t, err, sandbox.CauseImage, c.say)
			if _, err := d.Prune(t.Context(), false); err != nil {
				t.Error(err)
			}
			if left := inventory(t, d); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// An image of as many files and directories as the bounds allow is unpacked, in whatever order.
func TestDiskCountsParentsOnce(t *testing.T) {
	for name, all := range map[string][]tar.Header{
		"listed":     {dir("a"), dir("a/b"), file("a/b/1"), file("a/b/2"), dir("a/c"), file("a/c/1"), file("a/b/3")},
		"not listed": {file("a/b/1"), file("a/b/2"), file("a/c/1"), file("a/b/3")},
		"by a link":  {dir("a/b"), link("l", "a/b"), file("l/1"), file("l/2"), file("a/b/3")},
	} {
		d := newDisk(t)
		d.bounds = bounds{bytes: 1 << 20, entries: 7, ratio: 1 << 20}
		if _, err := keep(t, d, "x", layered(t, members(t, all...))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The bounds are for all images of an import: each has its own root.
func TestDiskBoundsAllImagesOfAnImport(t *testing.T) {
	file := archiveOfAuthors(t, members(t, shell(10<<10), file("a"), file("b"), file("c"), file("d")), 8)
	for say, b := range map[string]bounds{
		"more than 64 KiB": {bytes: 64 << 10, entries: 100, ratio: 1 << 20},
		"more members":     {bytes: 1 << 20, entries: 47, ratio: 1 << 20},
		"longer than":      {bytes: 1 << 20, entries: 100, ratio: 1 << 20, names: 79},
		"not unpacked":     {bytes: 1 << 20, entries: 100, ratio: 1 << 20, time: time.Nanosecond},
	} {
		d := newDisk(t)
		d.bounds = b
		_, err := d.Import(t.Context(), file, "")
		wantCause(t, err, sandbox.CauseImage, say)
		if _, err := d.Prune(t.Context(), false); err != nil {
			t.Error(err)
		}
		if left := inventory(t, d); len(left) != 0 {
			t.Errorf("left %v", left)
		}
	}
	d := newDisk(t)
	d.bounds = bounds{bytes: 128 << 10, entries: 48, ratio: 1 << 20, names: 80}
	if all, err := d.Import(t.Context(), file, ""); err != nil || len(all) != 8 {
		t.Errorf("%d images, %v", len(all), err)
	}
	all, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Size != 10<<10+4 {
			t.Errorf("%s has %d bytes", r.Name, r.Size)
		}
	}
}

// archiveOfAuthors is a docker archive of images of one layer, which differ in their authors.
func archiveOfAuthors(t *testing.T, layer []byte, n int) string {
	t.Helper()
	diffID, _, err := v1.SHA256(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	files, all := []string{"l", string(layer)}, []map[string]any{}
	for i := range n {
		config, err := json.Marshal(v1.ConfigFile{OS: "linux", Architecture: "amd64", Author: fmt.Sprint(i), RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diffID}}})
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("c%d", i)
		files = append(files, name, string(config))
		all = append(all, map[string]any{"Config": name, "RepoTags": []string{fmt.Sprintf("x:%d", i)}, "Layers": []string{"l"}})
	}
	manifest, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return tempFile(t, tarOf(t, append(files, "manifest.json", string(manifest))...))
}

// maze is a layer whose members are at the end of links that lead to links, each of them
// through a thousand directories.
func maze(t *testing.T) []byte {
	t.Helper()
	var all []tar.Header
	there := strings.Repeat("x/", 650)
	back := strings.Repeat("../", 650)
	for i := range 200 {
		all = append(all, link(fmt.Sprintf("l%d", i), there+back+fmt.Sprintf("l%d", i+1)))
	}
	all = append(all, dir(there+"x"), dir("l200"))
	for i := range 2000 {
		all = append(all, file(fmt.Sprintf("l0/%d", i)))
	}
	return members(t, all...)
}

// An image's root is what Docker makes of it.
func TestDiskUnpacksAsDockerDoes(t *testing.T) {
	store, docker := realEngine(t)
	old := tar.Header{Name: "a/keep", Mode: 0o640, Uid: 7, Gid: 8, Size: 3}
	image := layered(t,
		members(t, dir("a"), old, file("a/gone"), file("a/changed"), dir("b"), file("b/x"), dir("b/sub"), file("b/sub/y"), link("s", "a"), hardLink("a/hard", "a/keep"),
			dir("o"), file("o/old"), dir("o/d"), file("o/d/old"), file("dir-to-file"), dir("file-to-dir"), file("file-to-dir/x"), tar.Header{Typeflag: tar.TypeDir, Name: "sticky/", Mode: 0o1777, Uid: 65534}),
		members(t, file("a/.wh.gone"), tar.Header{Name: "a/changed", Mode: 0o600, Size: 2}, file(".wh.b"), dir("o"), file("o/new"), file("o/.wh..wh..opq"),
			dir("dir-to-file"), file("dir-to-file/x"), file("file-to-dir"), file("c/d/e/made")),
		members(t, dir("b"), file("b/again"), tar.Header{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o700, Uid: 5, Gid: 6}, link("a/changed", "keep"), file(".wh.never")),
	)
	tag := uniqueName(t, docker)
	ref, err := parseTag(tag)
	if err != nil {
		t.Fatal(err)
	}
	images := tagged{}
	if err := images.add(ref, image); err != nil {
		t.Fatal(err)
	}
	loaded, err := store.load(t.Context(), tag, images)
	if err != nil {
		t.Fatal(err)
	}
	d := newDisk(t)
	got, err := keep(t, d, tag, image)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != loaded[0].ID {
		t.Errorf("on disk %s, in the engine %s", got.ID, loaded[0].ID)
	}
	theirs, ours := exported(t, tag), treeOf(t, mustRoot(t, d, got.ID))
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if want, ok := theirs[name]; want != ours[name] && !made(name) {
			t.Errorf("%s is %q, in the engine %q (%v)", name, ours[name], want, ok)
		}
	}
	for name := range theirs {
		if _, ok := ours[name]; !ok && !made(name) {
			t.Errorf("%s is missing", name)
		}
	}
}

// made are the files that an engine or a store adds to an image's.
func made(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{".", ".dockerenv", "dev", "etc", "proc", "sys", "tmp", "work"}, top)
}

// exported is the tree of an image in the engine.
func exported(t *testing.T, tag string) map[string]string {
	t.Helper()
	id, err := exec.Command("docker", "create", "--network=none", tag, "x").Output()
	if err != nil {
		t.Fatal(err)
	}
	container := strings.TrimSpace(string(id))
	defer exec.Command("docker", "rm", container).Run() //nolint:errcheck // the image's removal fails then
	content, err := exec.Command("docker", "export", container).Output()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	unpack := exec.Command("tar", "-x", "-p", "--same-owner", "--numeric-owner", "-C", root)
	unpack.Stdin = bytes.NewReader(content)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return treeOf(t, root)
}
