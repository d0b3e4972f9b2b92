package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// Shifted returns a copy of an image's root whose files belong to other users: those of user 0 to user
// first, of user 1 to the next, and so on. It is for a container with users of its own where the
// kernel cannot map them; a copy is shared by no two containers that run at once.
//
// take chooses first, given the ones that copies are there for. The copy stays until held is closed, as Root's
// directory does. When another is made, those that no one holds are removed: there are as many
// as an image has containers at once. They go with the image.
func (d *Disk) Shifted(ctx context.Context, id string, take func(made []int) (first int, err error)) (dir string, held *os.File, err error) {
	root, held, err := d.Root(ctx, id)
	if err != nil {
		return "", nil, err
	}
	if dir, err = d.shiftedOf(ctx, root, held, take); err != nil {
		held.Close()
		return "", nil, err
	}
	return dir, held, nil
}

// shiftedOf is Shifted of a root that is held.
func (d *Disk) shiftedOf(ctx context.Context, root string, held *os.File, take func(made []int) (first int, err error)) (dir string, err error) {
	all := filepath.Dir(root)
	made, err := copiesIn(all)
	if err != nil {
		return "", storing(err)
	}
	first, err := take(made)
	if err != nil {
		return "", err
	}
	// The byte of that number in the file that stands for the root stands for the copy.
	if err := ownfile.LockSoon(held, ownfile.Shared, int64(first)); err != nil {
		return "", storing(err)
	}
	dir = filepath.Join(all, strconv.Itoa(first))
	if _, err = os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		err = d.shift(ctx, root, dir, first)
	}
	return dir, refused(ctx, err, "run the command again", "copying the image for a container with a root user")
}

// copiesIn are the first users of the copies next to a root.
func copiesIn(dir string) (firsts []int, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if first, err := strconv.Atoi(entry.Name()); err == nil {
			firsts = append(firsts, first)
		}
	}
	return firsts, err
}

// shift makes a copy, which gets its place when it is complete.
func (d *Disk) shift(ctx context.Context, root, to string, first int) error {
	done, err := d.adding(ctx) // no one sweeps what is not complete
	if err != nil {
		return err
	}
	defer done()
	all := filepath.Dir(to)
	unlock, err := d.lock(ctx, ownfile.Exclusive, stripe(lockUnpack, filepath.Base(all)))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Lstat(to); err == nil { // meanwhile
		return nil
	}
	if err := d.dropCopies(all); err != nil {
		return err
	}
	at, err := os.MkdirTemp(d.path(tmpDir), "copy-")
	if err != nil {
		return err
	}
	most := d.limits().time
	late := &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("copying the image took more than %v", most),
		Hint: "move the state directory to a faster disk, or to a file system that maps user IDs, such as ext4, xfs or btrfs"}
	err = within(ctx, most, late, func(ctx context.Context) error {
		return (&shifter{from: root, to: filepath.Join(at, "root"), first: uint32(first), links: map[uint64]string{}}).copyAll(ctx)
	})
	if err == nil {
		err = syncDisk(at)
	}
	if err == nil {
		err = os.Rename(filepath.Join(at, "root"), to)
	}
	return errors.Join(err, os.RemoveAll(at))
}

// dropCopies removes the copies of an image that no one holds.
func (d *Disk) dropCopies(all string) error {
	firsts, err := copiesIn(all)
	if err != nil {
		return err
	}
	for _, first := range firsts {
		if err := d.dropCopy(all, first); err != nil {
			return err
		}
	}
	return nil
}

func (d *Disk) dropCopy(all string, first int) error {
	f, err := os.OpenFile(filepath.Join(all, inUse), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := ownfile.Lock(f, ownfile.Exclusive, int64(first)); err != nil {
		if ownfile.IsTaken(err) {
			return nil
		}
		return err
	}
	gone, err := os.MkdirTemp(d.path(tmpDir), "gone-")
	if err != nil {
		return err
	}
	err = os.Rename(filepath.Join(all, strconv.Itoa(first)), filepath.Join(gone, "root"))
	f.Close() // who waits for it need not wait until it is removed
	return errors.Join(err, os.RemoveAll(gone))
}
