package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"belljar/internal/archive"
	"belljar/sandbox"
	"belljar/sandbox/internal/mask"
)

const (
	// collectTimeout is how long it may take after a command that ended by itself. Where
	// belljar ends the command, it is the time of the list, because the command still runs.
	collectTimeout = 10 * time.Second

	maxCollectList = 16 << 20 // bytes of the list of files that may fit
)

// collection reads files of a container, which may be hostile: nothing that it says is
// believed but the content itself.
type collection struct {
	patterns []pattern
	most     int64  // bytes of all content
	mark     string // see scriptCollect
	wanted   chan []sandbox.CollectedFile
	files    []sandbox.CollectedFile // in the result
	problem  string                  // why there may be more
}

// collectAtEnd collects while a command that is to be ended still runs.
func (x *execution) collectAtEnd(ctx context.Context, place place, end ending) {
	if end.cause == sandbox.CauseCanceled && len(x.command.Collect) > 0 {
		x.result.Evidence.CollectError = "nothing is collected from a canceled command"
		return
	}
	x.collectFiles(ctx, place.Base(), listTimeout)
}

// collectFiles reads the files that the command names into the result.
func (x *execution) collectFiles(ctx context.Context, at *base, most time.Duration) {
	patterns, err := parsePatterns(x.command.Collect)
	if err != nil || len(patterns) == 0 {
		return
	}
	late := fmt.Errorf("not finished within %s", sandbox.FormatDuration(most))
	ctx, cancel := context.WithTimeoutCause(ctx, most, late)
	defer cancel()
	t := x.moving(at, x.profile.Workdir, "collecting files")
	t.env = append(t.env, "F="+t.temp+" %f %s %Y %n")
	c := &collection{patterns: patterns, most: x.command.Limits.Result, mark: t.temp, wanted: make(chan []sandbox.CollectedFile, 1)}
	err = t.run(ctx, scriptCollect, c.ask, c.read)
	switch {
	case err != nil:
		c.problem = reason(err)
	case c.problem == "" && t.said != "":
		c.problem = "collecting files: " + strconv.Quote(t.said)
	}
	if masks := x.output.masks; masks != nil {
		x.result.Masked += maskFiles(masks, c.files) // before the audit log gets their names
	}
	x.result.Files, x.result.Evidence.CollectError = c.files, c.problem
}

// ask writes what scriptCollect reads.
func (c *collection) ask(in io.Writer, _ io.Reader) error {
	var lines strings.Builder
	for _, p := range c.patterns {
		s, depth := p.search(), ""
		if s.depth >= 0 {
			depth = strconv.Itoa(s.depth)
		}
		if s.dir = "/" + s.dir; s.dir == "/." {
			s.dir = ""
		}
		fmt.Fprintf(&lines, "d=%s p=%s m=%s\n", quoteLine(s.dir), quoteLine(s.path), depth)
	}
	if _, err := io.WriteString(in, lines.String()+"\n"); err != nil {
		return err
	}
	lines.Reset()
	for _, f := range <-c.wanted {
		fmt.Fprintf(&lines, "f=%s n=%d\n", quoteLine(f.Path), f.Size)
	}
	_, err := io.WriteString(in, lines.String())
	return err
}

// read reads the list, and then the content of the files that fit. Where the output ends
// early, the script's status says why.
func (c *collection) read(out io.Reader) error {
	defer close(c.wanted)
	c.problem = "collecting files: what lists files in the container does not work as find and stat do"
	r := bufio.NewReaderSize(out, 64<<10)
	text, err := readUntil(r, "\n"+c.mark+".\n", maxCollectList)
	if err != nil {
		return early(err)
	}
	list, err := c.list(string(text))
	if err != nil {
		return err
	}
	c.problem = ""
	list = c.choose(list)
	wanted := c.budget(list)
	c.wanted <- wanted
	for i := range list {
		f := &list[i]
		if len(wanted) > 0 && wanted[0].Path == f.Path {
			if err := c.content(r, f, wanted[0].Size); err != nil {
				c.problem = "collecting files: the container ended, or what reads files in it does not work as head does"
				return early(err)
			}
			wanted = wanted[1:]
		}
		c.files = append(c.files, *f)
	}
	return nil
}

func early(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// list reads the list of files.
func (c *collection) list(text string) (list []sandbox.CollectedFile, err error) {
	found := map[string]sandbox.CollectedFile{}
	entries := strings.SplitN(text, c.mark+" ", archive.MaxEntries+2)
	if len(entries) > archive.MaxEntries+1 {
		return nil, sandbox.Invalid("name a directory in the pattern", "more than %d files where the patterns lead", archive.MaxEntries)
	}
	for _, entry := range entries[1:] {
		kind, name, ok := parseEntry(entry)
		if name = path.Clean(name); !ok || !filepath.IsLocal(name) {
			continue
		}
		if f := (sandbox.CollectedFile{Path: name, Mode: kind.mode.Perm(), Size: kind.size}); c.fits(name, kind.mode) {
			f.Error = c.whyNot(name, kind.mode)
			found[name] = f
		}
	}
	list = slices.SortedFunc(maps.Values(found), func(a, b sandbox.CollectedFile) int { return strings.Compare(a.Path, b.Path) })
	for i := range list {
		f, below := &list[i], list[i].Path+"/"
		at, _ := slices.BinarySearchFunc(list, below, func(f sandbox.CollectedFile, name string) int { return strings.Compare(f.Path, name) })
		if f.Error == "" && at < len(list) && strings.HasPrefix(list[at].Path, below) {
			f.Error = "it was also a directory meanwhile"
		}
	}
	return list, nil
}

// fits reports whether a pattern is about that file.
func (c *collection) fits(name string, mode fs.FileMode) bool {
	return !mode.IsDir() && c.any(name, pattern.matches) || mode&fs.ModeSymlink != 0 && c.any(name, pattern.leadsThrough)
}

func (c *collection) any(name string, is func(p pattern, elements []string) bool) bool {
	elements := strings.Split(name, "/")
	return slices.ContainsFunc(c.patterns, func(p pattern) bool { return is(p, elements) })
}

// whyNot says why a file is not read, or "".
func (c *collection) whyNot(name string, mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0 && !c.any(name, pattern.matches):
		return "a symbolic link is on the way"
	case mode&fs.ModeSymlink != 0:
		return "it is a symbolic link"
	case !mode.IsRegular():
		return "it is not a regular file"
	case !utf8.ValidString(name):
		return "its name is not UTF-8"
	}
	return ""
}

// choose leaves out files beyond the limits.
func (c *collection) choose(list []sandbox.CollectedFile) []sandbox.CollectedFile {
	names := 0
	for i := range list {
		names += len(list[i].Path)
		if i == maxFiles || names > maxFileNames {
			c.problem = fmt.Sprintf("collecting files: %d fit, and only the first %d are collected", len(list), i)
			return list[:i]
		}
	}
	return list
}

// budget are the files to read, with how much of each. Sizes are as listed: what grows
// meanwhile is cut.
func (c *collection) budget(list []sandbox.CollectedFile) (wanted []sandbox.CollectedFile) {
	left := c.most
	for i := range list {
		f := &list[i]
		n := min(f.Size, left)
		if f.Error != "" || f.Size == 0 {
			continue
		}
		if f.Truncated = n < f.Size; n > 0 {
			left -= n
			wanted = append(wanted, sandbox.CollectedFile{Path: f.Path, Size: n})
		}
	}
	return wanted
}

// content reads the content of one file.
func (c *collection) content(r *bufio.Reader, f *sandbox.CollectedFile, most int64) error {
	content, err := readUntil(r, "\n"+c.mark+":\n", most)
	if err != nil {
		return err
	}
	status, err := readUntil(r, "\n", 3)
	if err != nil {
		return err
	}
	if string(status) != "0" {
		f.Error, f.Truncated = "it cannot be read", false
		return nil
	}
	f.Content = content
	if int64(len(content)) < most { // it shrank
		f.Size, f.Truncated = int64(len(content)), false
	}
	return nil
}

// readUntil reads up to a mark, which ends with a line end, and at most so much before it.
func readUntil(r *bufio.Reader, mark string, most int64) (text []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		text = append(text, part...)
		if before, ok := bytes.CutSuffix(text, []byte(mark)); ok && int64(len(before)) <= most {
			return before, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if int64(len(text)) > most+int64(len(mark)) {
			return nil, sandbox.Invalid("collect fewer files", "the container sends more than it was asked for: over %s", sandbox.FormatSize(most))
		}
	}
}

// collectedNames are files as the audit log has them.
func collectedNames(files []sandbox.CollectedFile) (list []string) {
	for _, f := range files {
		list = append(list, fmt.Sprintf("%s:%d", f.Path, f.Size))
	}
	return list
}

// maskFiles masks secrets in files, and returns how many there were. What is cut may end
// within one: its beginning is left out, too.
func maskFiles(masks *mask.Masks, files []sandbox.CollectedFile) (count int) {
	for i := range files {
		f := &files[i]
		path, n := masks.Text(f.Path)
		stream := mask.NewStream(masks)
		content := slices.Clone(stream.Feed(f.Content))
		if !f.Truncated {
			content = append(content, stream.Flush()...)
		}
		f.Path, f.Content = path, content
		count += n + stream.Count
	}
	return count
}
