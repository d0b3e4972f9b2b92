package images

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// opener opens a file of an archive.
type opener func(name string) (blob, error)

// blob is an archive's open file.
type blob struct {
	*io.SectionReader
	io.Closer
}

// contents are the members of a tar that an image may need.
type contents struct {
	files map[string]place  // regular files
	links map[string]string // `docker save` before 25 links equal layers
	shell bool              // bin/sh, as root file systems have
}

// place is the position of a member's content in its tar.
type place struct{ offset, size int64 }

// full reports whether the tar contains more members than are recorded.
func (c contents) full() bool { return len(c.files)+len(c.links) > maxMembers }

func (c contents) has(name string) bool { _, ok := c.files[name]; return ok }

// scan reads a tar to its end, so that a damaged one is detected early.
func scan(ctx context.Context, s *source, b bounds) (contents, error) {
	found := contents{files: map[string]place{}, links: map[string]string{}}
	section := s.section(0, s.size)
	members := tar.NewReader(seeker{until(ctx, section), section})
	for count := 0; ; count++ {
		h, err := nextMember(members)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		if count == b.entries {
			return found, errTooMany
		}
		name := memberName(h)
		if name == "bin/sh" || name == "usr/bin/sh" {
			found.shell = true
		}
		// A root file system has more members, and needs none of them.
		if found.full() {
			continue
		}
		switch {
		case h.Typeflag == tar.TypeReg && !sparse(h):
			offset, err := section.Seek(0, io.SeekCurrent)
			if err != nil {
				return found, err
			}
			found.files[name] = place{offset, h.Size}
		case h.Typeflag == tar.TypeSymlink:
			found.links[name] = path.Join(path.Dir(name), h.Linkname)
		case h.Typeflag == tar.TypeLink:
			found.links[name] = path.Clean(h.Linkname)
		}
	}
}

// seeker lets a tar reader skip content.
type seeker struct {
	io.Reader
	io.Seeker
}

// opener opens the tar's files.
func (c contents) opener(s *source) opener {
	return func(name string) (blob, error) {
		name = path.Clean(name)
		for range maxLinks {
			if at, ok := c.files[name]; ok {
				return blob{s.section(at.offset, at.size), io.NopCloser(nil)}, nil
			}
			target, ok := c.links[name]
			if !ok {
				break
			}
			name = target
		}
		return blob{}, fmt.Errorf("its file %.256q is not found", name)
	}
}

const maxLinks = 4

// dirOpener opens the files of a directory. It refuses paths that lead outside.
func dirOpener(root *os.Root) opener {
	return func(name string) (blob, error) {
		f, size, err := openRegular(func(flags int) (*os.File, error) { return root.OpenFile(name, flags, 0) })
		if err != nil {
			return blob{}, err
		}
		return blob{io.NewSectionReader(f, 0, size), f}, nil
	}
}

// metadata reads a small file completely.
func (open opener) metadata(name string) ([]byte, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Size() > maxMetadata {
		return nil, fmt.Errorf("its file %.256q is larger than %d MiB", name, maxMetadata>>20)
	}
	return io.ReadAll(f)
}

// described is an image in manifest.json.
type described struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func readManifest(open opener) ([]described, error) {
	content, err := open.metadata("manifest.json")
	if err != nil {
		return nil, err
	}
	var images []described
	if err := json.Unmarshal(content, &images); err != nil {
		return nil, fmt.Errorf("reading manifest.json: %w", err)
	}
	if len(images) == 0 {
		return nil, errors.New("it contains no image")
	}
	if len(images) > maxImages {
		return nil, fmt.Errorf("it contains more than %d images", maxImages)
	}
	names := 0
	for _, image := range images {
		if names += len(image.RepoTags); names > maxNames {
			return nil, errBeyond{fmt.Errorf("its images have more than %d names", maxNames)}
		}
	}
	return images, nil
}
