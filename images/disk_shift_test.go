package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar/sandbox"
)

// owned is a root file system of files with several owners, modes, times and names.
func owned(t *testing.T) string {
	t.Helper()
	when := time.Unix(1_000_000_000, 0)
	return tempFile(t, members(t,
		shell(10),
		tar.Header{Name: "home/app", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 1000, Gid: 50, ModTime: when},
		tar.Header{Name: "home/app/a", Mode: 0o640, Uid: 1000, Gid: 50, Size: 3, ModTime: when},
		tar.Header{Name: "home/app/same", Typeflag: tar.TypeLink, Linkname: "home/app/a"},
		tar.Header{Name: "home/app/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/none", Uid: 1000, Gid: 50, ModTime: when},
		tar.Header{Name: "home/app/closed", Typeflag: tar.TypeDir, Mode: 0o500, Uid: 1000, ModTime: when},
		tar.Header{Name: "home/app/closed/a", Mode: 0, Size: 1, ModTime: when},
		tar.Header{Name: "last", Mode: 0o644, Uid: 65535, Gid: 65535},
		tar.Header{Name: "beyond", Mode: 0o644, Uid: 100_000, Gid: 4_000_000_000},
	))
}

// always is a choice of users.
func always(first int) func([]int) (int, error) {
	return func([]int) (int, error) { return first, nil }
}

func mustShift(t *testing.T, d *Disk, id string, first int) (dir string, held *os.File) {
	t.Helper()
	dir, held, err := d.Shifted(t.Context(), id, always(first))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	return dir, held
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
}

// A copy is as its root is, but for the owners.
func TestDiskShifts(t *testing.T) {
	needRoot(t)
	const first = 1_879_048_192
	d := newDisk(t)
	got, err := d.Import(t.Context(), owned(t), "owned")
	if err != nil {
		t.Fatal(err)
	}
	root := mustRoot(t, d, got[0].ID)
	dir, _ := mustShift(t, d, got[0].ID, first)
	want, copied := treeOf(t, root), treeOf(t, dir)
	if len(want) < 15 || len(want) != len(copied) {
		t.Errorf("%d files of %d: %v", len(copied), len(want), copied)
	}
	for name, text := range want {
		for _, ids := range [][2]string{
			{" 0:0", fmt.Sprintf(" %d:%d", first, first)}, {" 1000:50", fmt.Sprintf(" %d:%d", first+1000, first+50)}, {" 1000:0", fmt.Sprintf(" %d:%d", first+1000, first)},
			{" 65535:65535", fmt.Sprintf(" %d:%d", first+65535, first+65535)}, {" 100000:4000000000", fmt.Sprintf(" %d:%d", first+65534, first+65534)},
		} {
			text = strings.Replace(text, ids[0]+" ", ids[1]+" ", 1)
			if strings.HasSuffix(text, ids[0]) {
				text = strings.TrimSuffix(text, ids[0]) + ids[1]
			}
		}
		if copied[name] != text {
			t.Errorf("%s is %q, want %q", name, copied[name], text)
		}
	}
	for _, name := range []string{"home/app", "home/app/closed", "home/app/link"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.ModTime().Unix() != 1_000_000_000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	var a, same syscall.Stat_t
	if err := errors.Join(syscall.Stat(dir+"/home/app/a", &a), syscall.Stat(dir+"/home/app/same", &same)); err != nil || a.Ino != same.Ino {
		t.Errorf("inodes %d and %d, %v", a.Ino, same.Ino, err)
	}
}

// There are as many copies as are held, and one that is there is offered.
func TestDiskKeepsCopiesThatAreHeld(t *testing.T) {
	needRoot(t)
	d := newDisk(t)
	got := importTree(t, d, "a", "bin/sh", "x")
	copies := func() (names []string) {
		found, err := filepath.Glob(d.path(rootsDir, "*", "[0-9]*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			names = append(names, filepath.Base(name))
		}
		return names
	}
	_, first := mustShift(t, d, got.ID, 100_000)
	_, second := mustShift(t, d, got.ID, 200_000)
	mark := d.path(rootsDir, strings.TrimPrefix(got.ID, "sha256:"), "200000", "mark")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second.Close()
	_, again, err := d.Shifted(t.Context(), got.ID, func(made []int) (int, error) {
		if !slices.Equal(made, []int{100_000, 200_000}) {
			t.Errorf("made are %v", made)
		}
		return 200_000, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("it was made again: %v", err)
	}
	again.Close()
	mustShift(t, d, got.ID, 300_000)
	if left := copies(); !slices.Equal(left, []string{"100000", "300000"}) {
		t.Errorf("copies are %v", left)
	}
	first.Close()
	refused := errors.New("no users")
	if _, _, err := d.Shifted(t.Context(), got.ID, func([]int) (int, error) { return 0, refused }); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
}

// A copy holds its image, also in another process, and goes with it.
func TestDiskRemovesCopies(t *testing.T) {
	needRoot(t)
	d := newDisk(t)
	got := importTree(t, d, "a", "bin/sh", "x")
	_, held := mustShift(t, d, got.ID, 100_000)
	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = []*os.File{held}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	held.Close()
	_, err := d.Remove(t.Context(), "a")
	wantCause(t, err, sandbox.CauseImage, "is in use")
	_, other, err := d.Shifted(t.Context(), got.ID, always(200_000))
	if err != nil {
		t.Fatal(err)
	}
	if dir := d.path(rootsDir, strings.TrimPrefix(got.ID, "sha256:"), "100000"); len(treeOf(t, dir)) < 2 {
		t.Error("the copy of the process is gone")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	other.Close()
	if removed, err := d.Prune(t.Context(), true); err != nil || len(removed.IDs) != 1 {
		t.Errorf("%+v, %v", removed, err)
	}
	if left := inventory(t, d); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// Many that ask for the same copy get one that is whole.
func TestDiskShiftsOnce(t *testing.T) {
	needRoot(t)
	d := newDisk(t)
	got, err := d.Import(t.Context(), manyFiles(t, 1), "many")
	if err != nil {
		t.Fatal(err)
	}
	files := len(treeOf(t, mustRoot(t, d, got[0].ID)))
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			dir, held, err := (&Disk{Dir: d.Dir}).Shifted(t.Context(), got[0].ID, always(100_000))
			if err != nil {
				t.Error(err)
				return
			}
			defer held.Close()
			if n := len(treeOf(t, dir)); n != files {
				t.Errorf("%d files, want %d", n, files)
			}
		})
	}
	all.Wait()
}

// What is not complete has no place, and is removed: by who made it, or by the next.
func TestDiskShiftIsCanceled(t *testing.T) {
	needRoot(t)
	d := newDisk(t)
	got, err := d.Import(t.Context(), manyFiles(t, 1), "many")
	if err != nil {
		t.Fatal(err)
	}
	before := inventory(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = d.Shifted(ctx, got[0].ID, func([]int) (int, error) { cancel(); return 100_000, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left := inventory(t, d); !slices.Equal(left, before) {
		t.Errorf("left %v", left)
	}
	if err := os.MkdirAll(d.path(tmpDir, "copy-1", "root", "bin"), 0o700); err != nil { // of one that was killed
		t.Fatal(err)
	}
	mustShift(t, d, got[0].ID, 100_000)
	if left := inventory(t, d); !slices.Equal(left, before) {
		t.Errorf("left %v", left)
	}
	if _, err := os.Stat(d.path(rootsDir, strings.TrimPrefix(got[0].ID, "sha256:"), "100000", "bin", "sh")); errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Where there is no room for a copy, that is told, and nothing is left of it.
func TestDiskHasNoRoomForACopy(t *testing.T) {
	needRoot(t)
	at := t.TempDir()
	if err := unix.Mount("test", at, "tmpfs", 0, "size=5m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := &Disk{Dir: filepath.Join(at, "images")}
	got, err := d.Import(t.Context(), tempFile(t, members(t, shell(1_800_000))), "large")
	if err != nil {
		t.Fatal(err)
	}
	before := inventory(t, d)
	_, _, err = d.Shifted(t.Context(), got[0].ID, always(100_000))
	wantCause(t, err, sandbox.CauseEngine, "no space left", "belljar images prune")
	if left := inventory(t, d); !slices.Equal(left, before) {
		t.Errorf("left %v", left)
	}
	if removed, err := d.Remove(t.Context(), "large"); err != nil || len(removed.IDs) != 1 { // no one holds it
		t.Errorf("%+v, %v", removed, err)
	}
}
