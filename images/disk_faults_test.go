package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// startChild starts a process that stores an image.
func startChild(t *testing.T, d *Disk, file, tag string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(self, d.Dir, file, tag)
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &said
}

// manyFiles is a root file system of some size.
func manyFiles(t *testing.T, seed byte) string {
	t.Helper()
	headers := []tar.Header{shell(int64(seed))}
	for i := range 400 {
		headers = append(headers, tar.Header{Name: fmt.Sprintf("d/%d/f", i), Mode: 0o644, Size: 4000})
	}
	return tempFile(t, members(t, headers...))
}

// A killed process leaves nothing that counts: an image is there and complete, or it
// is not there.
func TestDiskOutlivesKills(t *testing.T) {
	d := newDisk(t)
	importTree(t, d, "first", "bin/sh", "first")
	began := time.Now()
	cmd, said := startChild(t, d, manyFiles(t, 1), "probe")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	took := time.Since(began)
	complete := 0
	for i := range 15 {
		tag := fmt.Sprintf("killed:%d", i)
		cmd, _ := startChild(t, d, manyFiles(t, byte(10+i)), tag)
		time.Sleep(rand.N(took))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if _, err := d.Resolve(t.Context(), "first", sandbox.PullNever); err != nil {
			t.Fatal(err)
		}
		got, err := d.Resolve(t.Context(), tag, sandbox.PullNever)
		if err != nil {
			wantCause(t, err, sandbox.CauseImage, "is not present")
			continue
		}
		complete++
		if tree := treeOf(t, mustRoot(t, d, got.ID)); len(tree) < 2*400 {
			t.Errorf("%s: %d files", tag, len(tree))
		}
	}
	t.Logf("%d of 15 were complete", complete)
	importTree(t, d, "last", "bin/sh", "last") // removes what they left
	all, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := inventory(t, d); len(left) != 4*len(all) { // a manifest, a configuration, a layer and a root each
		t.Errorf("%d images, and %d files: %v", len(all), len(left), left)
	}
}

// Several processes add, use and remove images at once.
func TestDiskIsSharedByProcesses(t *testing.T) {
	d := newDisk(t)
	same := manyFiles(t, 1)
	stop, pruned := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				pruned <- nil
				return
			case <-time.After(5 * time.Millisecond):
			}
			if _, err := (&Disk{Dir: d.Dir}).Prune(context.Background(), false); err != nil {
				pruned <- err
				return
			}
		}
	}()
	var all sync.WaitGroup
	for i := range 6 {
		file := same
		if i > 2 {
			file = manyFiles(t, byte(i))
		}
		all.Go(func() {
			cmd, said := startChild(t, d, file, fmt.Sprintf("i:%d", i))
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
	all.Wait()
	close(stop)
	if err := <-pruned; err != nil {
		t.Error(err)
	}
	if names := diskNames(t, d); names != "i:0 i:1 i:2 i:3 i:4 i:5" {
		t.Errorf("names %q", names)
	}
	for i := range 6 {
		got := mustPin(t, d, fmt.Sprintf("i:%d", i), sandbox.PullNever)
		if tree := treeOf(t, mustRoot(t, d, got.ID)); len(tree) < 2*400 {
			t.Errorf("i:%d: %d files", i, len(tree))
		}
	}
	importTree(t, d, "last", "bin/sh", "last")
	if left := inventory(t, d); len(left) != 5*4 {
		t.Errorf("%d files: %v", len(left), left)
	}
}

// A root stays as long as anyone holds it, such as a container that outlives belljar.
func TestDiskKeepsRootsInUse(t *testing.T) {
	d := newDisk(t)
	got := importTree(t, d, "a", "bin/sh", "x")
	dir, held, err := d.Root(t.Context(), got.ID)
	if err != nil {
		t.Fatal(err)
	}
	again, second, err := d.Root(t.Context(), got.ID)
	if err != nil || again != dir {
		t.Fatal(again, err)
	}
	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = []*os.File{held}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	held.Close()
	_, err = d.Remove(t.Context(), "a")
	wantCause(t, err, sandbox.CauseImage, `"a:latest" is in use`, "belljar ps")
	second.Close() // the process has it still
	if removed, err := d.Prune(t.Context(), true); err != nil || removed.IDs != nil {
		t.Errorf("%+v, %v", removed, err)
	}
	importTree(t, d, "a", "bin/sh", "y") // its name moves
	if removed, err := d.Prune(t.Context(), false); err != nil || removed.IDs != nil {
		t.Errorf("%+v, %v", removed, err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "bin/sh")); string(content) != "x" {
		t.Errorf("%q, %v", content, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if removed, err := d.Prune(t.Context(), false); err != nil || len(removed.IDs) != 1 {
		t.Errorf("%+v, %v", removed, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", dir, err)
	}
}

// A root that is gone is unpacked again; so is one for each of those that ask at once.
func TestDiskUnpacksAgain(t *testing.T) {
	d := newDisk(t)
	got := importTree(t, d, "a", "bin/sh", "x")
	for range 3 {
		if err := os.RemoveAll(d.path(rootsDir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(d.path(rootsDir), 0o700); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				dir, held, err := d.Root(t.Context(), got.ID)
				if err != nil {
					t.Error(err)
					return
				}
				defer held.Close()
				if content, err := os.ReadFile(filepath.Join(dir, "bin/sh")); string(content) != "x" {
					t.Errorf("%q, %v", content, err)
				}
			})
		}
		all.Wait()
	}
}

// A damaged file of the store is noticed, and told with what to do.
func TestDiskNoticesDamage(t *testing.T) {
	for kind, which := range map[string]func(r record, layer string) string{
		"manifest":      func(r record, _ string) string { return r.manifest.Hex },
		"configuration": func(r record, _ string) string { return r.id.Hex },
		"layer":         func(_ record, layer string) string { return layer },
	} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t)
			got := importTree(t, d, "a", "bin/sh", "x")
			records, err := d.records()
			if err != nil {
				t.Fatal(err)
			}
			manifest, _, err := d.image(records[0])
			if err != nil {
				t.Fatal(err)
			}
			name := d.path(blobsDir, which(records[0], manifest.Layers[0].Digest.Hex))
			content := mustRead(t, name)
			content[len(content)/2] ^= 1
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(d.rootDir(records[0].id)); err != nil {
				t.Fatal(err)
			}
			_, _, err = d.Root(t.Context(), got.ID)
			wantCause(t, err, sandbox.CauseImage, "belljar images rm a:latest")
			if _, err := d.List(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := d.Remove(t.Context(), "a:latest"); err != nil {
				t.Error(err)
			}
			if left := inventory(t, d); len(left) != 0 {
				t.Errorf("left %v", left)
			}
			importTree(t, d, "a", "bin/sh", "x")
			mustRoot(t, d, got.ID)
		})
	}
}

// An image that cannot be read just now is not damaged: what it needs stays, wherever the process runs out of descriptors.
func TestDiskSweepsNothingThatIsNeeded(t *testing.T) {
	d := newDisk(t)
	importTree(t, d, "a", "bin/sh", "x")
	before := inventory(t, d)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	failed, went := 0, 0
	for most := range uint64(64) {
		limit := syscall.Rlimit{Cur: most, Max: was.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		_, err := d.sweep(t.Context())
		if back := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); back != nil {
			t.Fatal(back)
		}
		if err == nil {
			went++
		} else if failed++; sandbox.CauseOf(err) != sandbox.CauseEngine {
			t.Errorf("with %d descriptors: %v", most, err)
		}
		if left := inventory(t, d); !slices.Equal(left, before) {
			t.Fatalf("with %d descriptors: left %v of %v", most, left, before)
		}
	}
	if failed == 0 || went == 0 {
		t.Errorf("%d failed, %d went", failed, went)
	}
}

// A damaged layer that images share is fetched again for the next of them, and so for all.
func TestDiskRepairsSharedLayers(t *testing.T) {
	host := localRegistry(t)
	shared := members(t, shell(1000))
	digest := v1.Hash{}
	for _, name := range []string{"a", "b", "c"} {
		image := layered(t, shared, members(t, file(name)))
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		digest = manifest.Layers[0].Digest
		push(t, host+"/"+name+":1", image)
	}
	d := newDisk(t)
	mustPin(t, d, host+"/a:1", "")
	mustPin(t, d, host+"/b:1", "")
	blob := d.path(blobsDir, digest.Hex)
	good := mustRead(t, blob)
	for name, repair := range map[string]func() error{
		"another image": func() error { _, err := d.Resolve(t.Context(), host+"/c:1", ""); return err },
		"removed":       func() error { _, err := d.Remove(t.Context(), host+"/a:1"); return err },
		"of a file":     func() error { _, err := keep(t, d, "x", layered(t, shared, members(t, file("x")))); return err },
	} {
		bad := bytes.Clone(good)
		bad[len(bad)/2] ^= 1
		if err := os.WriteFile(blob, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := repair(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		mustPin(t, d, host+"/a:1", "")
		if !bytes.Equal(mustRead(t, blob), good) {
			t.Errorf("%s: the layer is still damaged", name)
		}
	}
}

// On a full disk nothing is stored, and what is there stays.
func TestDiskOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can mount a small file system")
	}
	for kind, size := range map[string]string{"bytes": "size=2m", "files": "size=64m,nr_inodes=100"} {
		t.Run(kind, func(t *testing.T) {
			mounted := t.TempDir()
			if err := syscall.Mount("tmpfs", mounted, "tmpfs", 0, size); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(mounted, 0); err != nil {
					t.Error(err)
				}
			})
			d := &Disk{Dir: filepath.Join(mounted, "images")}
			small := importTree(t, d, "small", "bin/sh", "x")
			before := len(inventory(t, d))
			_, err := d.Import(t.Context(), manyFiles(t, 1), "large")
			wantCause(t, err, sandbox.CauseEngine, "no space left", "belljar images prune")
			importTree(t, d, "small", "bin/sh", "x") // removes what is left of it
			if after := len(inventory(t, d)); after != before {
				t.Errorf("%d files, then %d", before, after)
			}
			for range 2 { // what was spared is spared again
				fill(t, mounted)
				if _, err := d.Remove(t.Context(), "small"); err != nil {
					t.Error(err)
				}
				if left := inventory(t, d); len(left) != 0 {
					t.Errorf("left %v", left)
				}
				if err := os.RemoveAll(mounted + "/full"); err != nil {
					t.Fatal(err)
				}
				importTree(t, d, "small", "bin/sh", "x")
			}
			mustRoot(t, d, small.ID) // which is used from here on
			fill(t, mounted)
			if _, err := d.Prune(t.Context(), true); err != nil {
				t.Error(err)
			}
		})
	}
}

// fill leaves no byte and no file free.
func fill(t *testing.T, mounted string) {
	t.Helper()
	if err := os.Mkdir(mounted+"/full", 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if err := os.WriteFile(fmt.Sprintf("%s/full/%d", mounted, i), make([]byte, 4096), 0o600); err != nil {
			if !isFull(err) {
				t.Fatal(err)
			}
			return
		}
	}
}

func TestDiskWatch(t *testing.T) {
	d := newDisk(t)
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan bool, 100)
	var watching sync.WaitGroup
	watching.Go(func() { d.Watch(ctx, func(w bool) { changes <- w }) })
	await := func(want bool) {
		t.Helper()
		select {
		case got := <-changes:
			if got != want {
				t.Errorf("watching is %v", got)
			}
		case <-time.After(time.Minute):
			t.Fatal("no change")
		}
	}
	await(true)
	cmd, said := startChild(t, d, manyFiles(t, 1), "a")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	await(true)
	if err := os.RemoveAll(d.Dir); err != nil {
		t.Fatal(err)
	}
	for got := range changes { // first the index is gone
		if !got {
			break
		}
	}
	await(true)
	cancel()
	watching.Wait()
	await(false)
}

// Without a directory, or in one that others can write, nothing is stored.
func TestDiskDirectories(t *testing.T) {
	_, err := (&Disk{}).Import(t.Context(), manyFiles(t, 1), "a")
	wantCause(t, err, sandbox.CauseEngine, "XDG_STATE_HOME")
	_, err = (&Disk{}).Resolve(t.Context(), "a", "")
	wantCause(t, err, sandbox.CauseEngine, "XDG_STATE_HOME")
	if _, err := os.Lstat("lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock in the working directory: %v", err)
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = (&Disk{Dir: open}).Import(t.Context(), manyFiles(t, 1), "a")
	wantCause(t, err, sandbox.CauseEngine, "writable by other users")
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(t.TempDir(), linked); err != nil {
		t.Fatal(err)
	}
	_, err = (&Disk{Dir: linked}).Import(t.Context(), manyFiles(t, 1), "a")
	wantCause(t, err, sandbox.CauseEngine, "is a link")
}

// Who waits for another process can be canceled.
func TestDiskWaitsNoLongerThanAsked(t *testing.T) {
	d := newDisk(t)
	got := importTree(t, d, "a", "bin/sh", "x")
	unlock, err := d.lock(t.Context(), ownfile.Exclusive, lockIndex)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, _, err := d.Root(ctx, got.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
