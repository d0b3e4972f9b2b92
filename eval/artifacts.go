package eval

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/internal/target"
	"belljar/sandbox"
)

// Bounds of what one trial makes.
const (
	maxArtifacts = 10_000
	maxBytes     = 64 << 20
	maxArchive   = 4 << 30 // with what is excluded
	maxRefused   = 20
	maxLingering = 100
	maxCommand   = 500 // bytes of the command line of what lingers
)

// artifacts are files that are graded, by their paths.
type artifacts []sandbox.File

func (a artifacts) list() (list []run.Artifact) {
	for _, f := range a {
		list = append(list, run.Artifact{Path: f.Path, Size: int64(len(f.Content)), Mode: fmt.Sprintf("%04o", f.Mode.Perm()), SHA256: fmt.Sprintf("%x", sha256.Sum256(f.Content))})
	}
	return list
}

// archive is always the same for the same files.
func (a artifacts) archive() []byte {
	text, _ := io.ReadAll(packed(a))
	return text
}

// packed is a tar archive of files, and of directories, which only an archive that is unpacked with -p changes if they are there.
func packed(files []sandbox.File) io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b) // into memory, so that nothing fails but a name that is refused before
	for _, f := range files {
		if f.Mode.IsDir() {
			mode := int64(f.Mode.Perm())
			for bit, of := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
				if f.Mode&bit != 0 {
					mode |= of
				}
			}
			w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(f.Path, "/") + "/", Mode: mode, Typeflag: tar.TypeDir, Format: tar.FormatPAX})
			continue
		}
		w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: int64(f.Mode.Perm()), Size: int64(len(f.Content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX})
		w.Write(f.Content)
	}
	w.Close()
	return &b
}

// refuse adds to what was not taken, within bounds: a solution may have any number of such files, with any names.
func refuse(refused []string, name, why string) []string {
	if len(refused) == maxRefused {
		return refused
	}
	return append(refused, fmt.Sprintf("%.200q: %s", name, why))
}

// lingers adds to what the agent left running, within bounds.
func (t *trial) lingers(list []sandbox.Process) {
	for _, p := range list[:min(len(list), maxLingering-len(t.result.Lingering))] {
		p.Command = strings.ToValidUTF8(p.Command[:min(len(p.Command), maxCommand)], "")
		t.result.Lingering = append(t.result.Lingering, p)
	}
}

// unpacked reads an archive that may be hostile: regular files that are declared, and nothing else. The rest is listed
// with the reason, but for what is excluded. It is of a container, or was made of so many steps: see inStep.
func unpacked(from io.Reader, declared []suite.Artifact, steps int) (made artifacts, refused []string, err error) {
	parts, more := max(1, steps), 0
	if steps > 0 {
		more = len(inStep(strings.Repeat("x", suite.MaxID), ""))
	}
	r, left, seen := tar.NewReader(io.LimitReader(from, maxArchive)), int64(parts)*maxBytes, map[string]bool{}
	entries, names := parts*maxArtifacts, parts*(suite.MaxNames+maxArtifacts*more) // that are left
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.SortFunc(made, func(a, b sandbox.File) int { return cmp.Compare(a.Path, b.Path) })
			return made, refused, nil
		}
		if err != nil {
			return nil, refused, fmt.Errorf("reading the artifacts: %w", err)
		}
		name := "/" + strings.TrimPrefix(strings.TrimSuffix(h.Name, "/"), "./")
		why := whyNot(h, name, suite.MaxName+more, declared, seen)
		if why == excluded {
			continue
		}
		entries, names = entries-1, names-len(name)
		switch {
		case entries < 0:
			return nil, refused, fmt.Errorf("the artifacts are over %d files", maxArtifacts)
		case h.Typeflag == tar.TypeDir && why == "":
			continue
		case why != "":
			refused = refuse(refused, name, why)
			continue
		case h.Size > left:
			return nil, refused, fmt.Errorf("the artifacts are over %s", sandbox.FormatSize(maxBytes))
		case names < 0:
			return nil, refused, fmt.Errorf("the names of the artifacts are over %s", sandbox.FormatSize(suite.MaxNames))
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, refused, fmt.Errorf("reading the artifacts: %w", err)
		}
		left, seen[name] = left-int64(len(content)), true
		made = append(made, sandbox.File{Path: name, Content: content, Mode: fs.FileMode(h.Mode).Perm() | 0o400})
	}
}

const excluded = "excluded"

// inStep is the path of a step's artifact in the archive of all steps.
func inStep(step, name string) string { return "/" + suite.StepsDir + "/" + step + name }

// whyNot says why an entry is not taken, or "".
func whyNot(h *tar.Header, name string, longest int, declared []suite.Artifact, seen map[string]bool) string {
	if path.Clean(name) != name || strings.ContainsRune(name, 0) || len(name) > longest {
		return "its name is not clean"
	}
	if !utf8.ValidString(name) { // results are JSON, which cannot say which file it is
		return "its name is not UTF-8"
	}
	in := slices.IndexFunc(declared, func(a suite.Artifact) bool { return target.Within(a.Path, name) })
	switch {
	case in < 0 && h.Typeflag == tar.TypeDir:
		return ""
	case in < 0:
		return "it is not declared"
	case declared[in].Excludes(name):
		return excluded
	case h.Typeflag == tar.TypeDir:
		return ""
	case h.Typeflag == tar.TypeSymlink:
		return "it is a symbolic link"
	case h.Typeflag == tar.TypeLink:
		return "it is a hard link"
	case h.Typeflag != tar.TypeReg:
		return "it is not a regular file"
	case h.Mode&0o7000 != 0:
		return "it has set-user-ID, set-group-ID or sticky bits"
	case seen[name]:
		return "it is there twice"
	}
	return ""
}

// take ends everything that runs in the agent's container, and takes out what is declared.
// Its files are in memory: once the container is gone, they are, too.
func (t *trial) take(ctx context.Context, b *box) (artifacts, outcome) {
	var names []string
	for _, a := range append(slices.Clone(t.task.Artifacts), suite.Artifact{Path: suite.LogsDir}) {
		names = append(names, "."+a.Path)
	}
	// What is listed comes from the agent; all else in this script is the image's, which is read-only.
	script := "kill -9 -1 2>/dev/null; cd / || exit 91; set --; for f in " + words(names) + "; do [ ! -e \"$f\" ] && [ ! -L \"$f\" ] || set -- \"$@\" \"$f\"; done\n" +
		"[ $# -eq 0 ] || exec tar -cf - \"$@\""
	declared := append(slices.Clone(t.task.Artifacts), suite.Artifact{Path: suite.LogsDir})
	var made artifacts
	s, err := b.fetch(ctx, run.Collect, script, func(from io.Reader) (err error) {
		made, t.result.Refused, err = unpacked(from, declared, 0)
		if err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(from, maxBytes)) // padding
		}
		return err
	})
	out := s.fails(run.BySolution)
	switch tooMuch := err != nil && s.result.Cause == sandbox.CauseCanceled && ctx.Err() == nil; {
	case s.lost != "":
		return nil, out
	case out.verdict == run.Error && !tooMuch:
		return nil, out
	case err != nil:
		return nil, s.outcome(run.Failed, run.BySolution, "%v", err)
	case out.verdict != "" && len(made) == 0:
		return nil, s.outcome(run.Failed, run.BySolution, "taking out the artifacts: %s %s", out.message, strconv.Quote(lastLine(s.result.Stderr)))
	}
	for _, a := range t.task.Artifacts {
		if !slices.ContainsFunc(made, func(f sandbox.File) bool { return target.Within(a.Path, f.Path) }) {
			t.notice("artifact %s is missing", a.Path)
		}
	}
	return made, outcome{}
}

// lastLine is the last line of an output that says something.
func lastLine(o sandbox.Output) string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(o.Bytes()), "\uFFFD")), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 300)]
}
