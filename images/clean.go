package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// cleaner reads the tars of root file systems and drops or refuses what a
// container's root must not have.
type cleaner struct {
	entries int // left to read
	dropped map[string]*dropped
}

// dropped is one kind of content that was left out of an image.
type dropped struct {
	count int
	first string // the first member that had it
}

const (
	dropPrivilege = "setuid and setgid bits" // no-new-privileges makes them useless
	dropXattrs    = "extended attributes"    // file capabilities, or attributes of overlay
	dropDevices   = "device nodes"           // the engine creates them
	dropFIFOs     = "FIFOs"                  // programs create them when they start
)

func (c *cleaner) drop(kind string, h *tar.Header) {
	if c.dropped == nil {
		c.dropped = map[string]*dropped{}
	}
	if c.dropped[kind] == nil {
		c.dropped[kind] = &dropped{first: h.Name}
	}
	c.dropped[kind].count++
}

// report describes the dropped content.
func (c *cleaner) report(w io.Writer) {
	for _, kind := range slices.Sorted(maps.Keys(c.dropped)) {
		d := c.dropped[kind]
		fmt.Fprintf(w, "Left out %s of the image: %d, such as in %.256q\n", kind, d.count, d.first)
	}
}

// clean copies a tar to w without the dropped content, and reports whether
// anything was dropped.
func (c *cleaner) clean(r io.Reader, w io.Writer) (changed bool, err error) {
	out := tar.NewWriter(w)
	made := dirs{seed: maphash.MakeSeed(), known: map[uint64]bool{}}
	for in := tar.NewReader(r); ; {
		header, err := nextMember(in)
		if errors.Is(err, io.EOF) {
			return changed, out.Close()
		}
		if err != nil {
			return false, err
		}
		if c.entries -= 1 + made.above(header); c.entries < 0 {
			return false, errTooMany
		}
		kept, same, err := c.keep(header)
		if err != nil {
			return false, err
		}
		changed = changed || !same
		if kept == nil {
			continue
		}
		if err := out.WriteHeader(kept); err != nil {
			return false, fmt.Errorf("its member %.256q: %w", header.Name, err)
		}
		if _, err := io.Copy(out, in); err != nil {
			return false, damaged(err)
		}
	}
}

// dirs are the directories of a tar, by hashes of their names, which may have many bytes.
type dirs struct {
	seed  maphash.Seed
	known map[uint64]bool
}

// above counts the directories that are made for a member.
func (d dirs) above(h *tar.Header) (made int) {
	name := memberName(h)
	if h.Typeflag == tar.TypeDir {
		d.known[maphash.String(d.seed, name)] = true
	}
	for {
		name, _ = path.Split(name)
		name = strings.TrimSuffix(name, "/")
		key := maphash.String(d.seed, name)
		if name == "" || d.known[key] {
			return made
		}
		d.known[key] = true
		made++
	}
}

// keep returns the header that a member gets, nil to drop it.
func (c *cleaner) keep(h *tar.Header) (kept *tar.Header, same bool, err error) {
	kept = &tar.Header{
		Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size,
		Mode: h.Mode & 0o7777, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime, Format: tar.FormatPAX,
	}
	switch h.Typeflag {
	case tar.TypeDir:
	case tar.TypeReg, tar.TypeLink, tar.TypeSymlink:
		same = !sparse(h)
	case tar.TypeCont, tar.TypeGNUSparse:
		kept.Typeflag = tar.TypeReg
	case tar.TypeXGlobalHeader: // a comment, from git-archive
		return nil, true, nil
	case tar.TypeFifo:
		c.drop(dropFIFOs, h)
		return nil, false, nil
	case tar.TypeChar, tar.TypeBlock:
		if !usualDevice(h) {
			return nil, false, fmt.Errorf("its member %.256q is a device node, which containers do not get: make the tar without it, with `tar --exclude`", h.Name)
		}
		c.drop(dropDevices, h)
		return nil, false, nil
	default:
		return nil, false, fmt.Errorf("its member %.256q is of the unknown type %q", h.Name, h.Typeflag)
	}
	if h.Typeflag == tar.TypeDir {
		same = true // its setgid bit only sets the group of new files
	} else if h.Mode&0o6000 != 0 { // a hard link's mode is set, too
		c.drop(dropPrivilege, h)
		kept.Mode &^= 0o6000
		same = false
	}
	if hasXattrs(h) {
		c.drop(dropXattrs, h)
		same = false
	}
	return kept, same, nil
}

// devices are the nodes that debootstrap and mmdebstrap create.
var devices = map[string][2]int64{
	"dev/console": {5, 1}, "dev/full": {1, 7}, "dev/null": {1, 3}, "dev/ptmx": {5, 2},
	"dev/random": {1, 8}, "dev/tty": {5, 0}, "dev/urandom": {1, 9}, "dev/zero": {1, 5},
}

func usualDevice(h *tar.Header) bool {
	number, ok := devices[memberName(h)]
	return ok && h.Typeflag == tar.TypeChar && number == [2]int64{h.Devmajor, h.Devminor}
}

func hasXattrs(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "SCHILY.xattr.") || strings.HasPrefix(name, "LIBARCHIVE.xattr.") || strings.HasPrefix(name, "SCHILY.acl.") {
			return true
		}
	}
	return false
}

// sparse reports whether a file is larger than its data in the tar. Unpacking it
// costs its full size.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// nextMember returns a tar's next member, if it is valid in a file system.
func nextMember(r *tar.Reader) (*tar.Header, error) {
	h, err := r.Next()
	if err == io.EOF {
		return nil, err
	}
	if err != nil {
		return nil, damaged(err)
	}
	return h, checkMember(h)
}

func checkMember(h *tar.Header) error {
	extra := 0
	for name, value := range h.PAXRecords {
		extra += len(name) + len(value)
	}
	switch {
	case climbs(h.Name) || h.Typeflag == tar.TypeLink && climbs(h.Linkname):
		return fmt.Errorf("its member %.256q leads out of the archive with \"..\"", h.Name)
	case len(h.Name) > maxPath || len(h.Linkname) > maxPath || longPart(h.Name):
		return fmt.Errorf("its member %.256q has a name that is too long for Linux", h.Name)
	case extra > maxPAX:
		return fmt.Errorf("its member %.256q has more than %d KiB of extra records", h.Name, maxPAX>>10)
	case h.Uid < 0 || h.Uid > maxID || h.Gid < 0 || h.Gid > maxID:
		return fmt.Errorf("its member %.256q belongs to user %d:%d, which is not a valid user", h.Name, h.Uid, h.Gid)
	}
	return nil
}

// memberName is a member's path without the "./" or "/" many tars begin with.
func memberName(h *tar.Header) string { return path.Clean("/" + h.Name)[1:] }

func climbs(name string) bool { return slices.Contains(strings.Split(name, "/"), "..") }

func longPart(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > maxPathPart })
}
