package suite

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"belljar/sandbox"
)

// built is what a Dockerfile that runs nothing makes of its image.
type built struct {
	from, workdir string
	root          bool
	env           []string
	files         []sandbox.File
}

// dockerfile reads the Dockerfile of a directory of the folder. What needs an image to be built
// must be allowed.
func (f *folder) dockerfile(dir string) (b built, err error) {
	if _, ok := f.files[dir+"/Dockerfile"]; !ok {
		return b, fs.ErrNotExist
	}
	b, err = f.plain(dir)
	if err != nil && f.allow.Build {
		return f.toBuild(dir)
	}
	return b, err
}

// plain reads a Dockerfile that only copies files: no image is built.
func (f *folder) plain(dir string) (b built, err error) {
	for _, fields := range instructions(string(f.files[dir+"/Dockerfile"].Content)) {
		no := sandbox.Invalid("run it with --allow-build, or build the image and name it as docker_image", "%s/Dockerfile has %.100q, which needs an image to be built", dir, strings.Join(fields, " "))
		args := fields[1:]
		switch strings.ToUpper(fields[0]) {
		case "FROM":
			if len(args) != 1 || b.from != "" || strings.Contains(args[0], "$") {
				return b, no
			}
			b.from = args[0]
		case "WORKDIR":
			if len(args) != 1 || strings.Contains(args[0], "$") {
				return b, no
			}
			b.moveTo(args[0])
		case "ENV":
			for _, a := range args {
				if !strings.Contains(a, "=") || strings.ContainsAny(a, `"'$\`) {
					return b, no
				}
			}
			b.env = append(b.env, args...)
		case "USER":
			if len(args) != 1 || args[0] != "root" && args[0] != "0" {
				return b, no
			}
			b.root = true
		case "COPY":
			if !f.copy(dir, &b, args) {
				return b, no
			}
		case "CMD", "ENTRYPOINT", "LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK": // of no effect here
		default:
			return b, no
		}
	}
	if b.from == "" {
		return b, sandbox.Invalid("name the image as docker_image", "%s/Dockerfile has no FROM", dir)
	}
	return b, nil
}

// copy adds what COPY copies. It reports false where that is not plain.
func (f *folder) copy(dir string, b *built, args []string) bool {
	if len(args) < 2 || slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--") || strings.ContainsAny(a, `*?[$"'`) }) {
		return false
	}
	to := args[len(args)-1]
	isDir := strings.HasSuffix(to, "/") || to == "." || len(args) > 2
	if !path.IsAbs(to) {
		to = path.Join("/", b.workdir, to)
	}
	for _, from := range args[:len(args)-1] {
		from = path.Join(dir, path.Clean("/"+from))
		if file, ok := f.files[from]; ok {
			file.Path = path.Clean(to)
			if isDir {
				file.Path = path.Join(to, path.Base(from))
			}
			b.files = append(b.files, file)
			continue
		}
		list := f.below(from, path.Clean(to))
		if len(list) == 0 {
			return false
		}
		b.files = append(b.files, slices.DeleteFunc(list, func(file sandbox.File) bool { return from == dir && path.Base(file.Path) == "Dockerfile" })...)
	}
	return true
}
