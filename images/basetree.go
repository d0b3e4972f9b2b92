package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"slices"
	"time"
)

const (
	nobody = 65534

	passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/work:/bin/sh\n"
	group  = "root:x:0:\nnogroup:x:65534:\n"
)

// baseTree is the root file system of Base as a tar. Equal arguments give
// equal bytes.
func baseTree(busybox []byte, applets []string) ([]byte, error) {
	var buf bytes.Buffer
	t := tree{tw: tar.NewWriter(&buf)}
	t.dir("bin", 0o755, 0)
	t.file("bin/busybox", 0o755, busybox)
	for _, name := range applets {
		t.link("bin/"+name, "busybox")
	}
	for _, name := range []string{"dev", "etc", "proc", "sys", "usr", "usr/bin"} {
		t.dir(name, 0o755, 0)
	}
	t.file("etc/group", 0o644, []byte(group))
	t.file("etc/passwd", 0o644, []byte(passwd))
	t.dir("root", 0o700, 0)
	t.dir("tmp", 0o1777, 0)
	if slices.Contains(applets, "env") {
		t.link("usr/bin/env", "../../bin/busybox") // for #!/usr/bin/env
	}
	t.dir("work", 0o1777, nobody) // the runtime mounts there with this mode
	if t.err == nil {
		t.err = t.tw.Close()
	}
	if t.err != nil {
		return nil, fmt.Errorf("writing layer: %w", t.err)
	}
	return buf.Bytes(), nil
}

// tree writes a tar's members, until the first error.
type tree struct {
	tw  *tar.Writer
	err error
}

func (t *tree) dir(name string, mode int64, owner int) {
	t.add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: owner, Gid: owner}, nil)
}

func (t *tree) file(name string, mode int64, content []byte) {
	t.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, content)
}

func (t *tree) link(name, target string) {
	t.add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

func (t *tree) add(header tar.Header, content []byte) {
	header.ModTime = time.Unix(0, 0)
	header.Format = tar.FormatUSTAR
	if t.err == nil {
		t.err = t.tw.WriteHeader(&header)
	}
	if t.err == nil {
		_, t.err = t.tw.Write(content)
	}
}
