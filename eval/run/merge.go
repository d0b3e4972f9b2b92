package run

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"
)

// ParseShard reads "I/N".
func ParseShard(s string) (part, parts int, ok bool) {
	i, n, ok := strings.Cut(s, "/")
	part, err1 := strconv.Atoi(i)
	parts, err2 := strconv.Atoi(n)
	return part, parts, ok && err1 == nil && err2 == nil && part >= 1 && part <= parts
}

// Merge makes one run of all shards of a run, in a directory that does not exist yet, or is
// empty. The shards may come from anywhere: what does not fit is refused.
func Merge(path, id string, shards []*Dir) (*Dir, error) {
	all, err := together(shards)
	if err != nil {
		return nil, err
	}
	all.ID = id
	if _, err := all.text(); err != nil { // before anything is copied
		return nil, err
	}
	lines := make([]map[Key][]byte, len(shards))
	for i, s := range shards {
		if lines[i], err = s.lines(); err != nil {
			return nil, err
		}
	}
	_, missing := os.Lstat(path)
	d, err := claim(path, all)
	if err != nil {
		return nil, err
	}
	for i, s := range shards {
		if err = d.take(s, lines[i]); err != nil {
			break
		}
	}
	if err == nil {
		err = d.results.Sync()
	}
	if err == nil {
		err = d.begin() // at last: a part of a merge is no run that resume would finish
	}
	if err == nil {
		return d, nil
	}
	for _, name := range []string{RunFile, ResultsFile, Logs, Artifacts} {
		os.RemoveAll(filepath.Join(path, name))
	}
	if errors.Is(missing, fs.ErrNotExist) {
		os.Remove(path)
	}
	return nil, errors.Join(err, d.Close())
}

// together is the run that the shards are parts of.
func together(shards []*Dir) (all Run, err error) {
	const hint = "merge the shards of one run: belljar eval run --shard I/N"
	slices.SortFunc(shards, func(a, b *Dir) int { return a.shard() - b.shard() })
	first := shards[0]
	_, parts, ok := ParseShard(first.Run.Options.Shard)
	if !ok {
		return all, sandbox.Invalid(hint, "%s is not a shard: it ran with --shard %q", first.Path, first.Run.Options.Shard)
	}
	all = first.Run
	images := map[string]string{}
	for i, s := range shards {
		if what := first.Run.differs(s.Run); what != "" {
			return all, sandbox.Invalid(hint, "%s and %s have different %s", first.Path, s.Path, what)
		}
		if part, n, ok := ParseShard(s.Run.Options.Shard); !ok || n != parts || part != i+1 {
			if ok && n == parts && part <= i {
				return all, sandbox.Invalid("leave out one", "%s and %s both are shard %d/%d", shards[i-1].Path, s.Path, part, parts)
			}
			return all, sandbox.Invalid("add its directory", "shard %d/%d is missing", i+1, parts)
		}
		for _, t := range s.Run.Tasks {
			for _, image := range append([]Image{{t.Image, t.Digest}}, t.Images...) {
				if digest, known := images[image.Name]; known && digest != image.Digest {
					return all, sandbox.Invalid(hint, "image %q is not the same in %s as in the others", image.Name, s.Path)
				}
				images[image.Name] = image.Digest
			}
		}
		if s.Run.Started.Before(all.Started) {
			all.Started = s.Run.Started
		}
	}
	if len(shards) != parts {
		return all, sandbox.Invalid("add its directory", "shard %d/%d is missing", len(shards)+1, parts)
	}
	all.Options.Shard, all.Suite.SHA256, all.Tasks = "", all.Suite.All, nil
	for round := 0; ; round++ { // as they were dealt out
		before := len(all.Tasks)
		for _, s := range shards {
			if round < len(s.Run.Tasks) {
				all.Tasks = append(all.Tasks, s.Run.Tasks[round])
			}
		}
		if len(all.Tasks) == before {
			break
		}
	}
	if Digest(all.Tasks) != all.Suite.All {
		return all, sandbox.Invalid(hint, "the tasks of the shards together are not the suite that was run: a run.json was changed")
	}
	return all, nil
}

func (d *Dir) shard() int {
	part, _, _ := ParseShard(d.Run.Options.Shard)
	return part
}

// differs says in what two runs are no shards of the same one, or "".
func (r Run) differs(o Run) string {
	a, b := r.Options, o.Options
	a.Shard, b.Shard = "", ""
	switch {
	case r.Suite.All != o.Suite.All:
		return "suites"
	case r.Config != o.Config:
		return "settings"
	case a != b:
		return "options (--no-controls, --retries, --filter)"
	case r.Agent.Kind != o.Agent.Kind || !slices.Equal(r.Agent.Command, o.Agent.Command):
		return "agents"
	case r.Agent.SHA256 != o.Agent.SHA256:
		return "answers"
	case r.Trials != o.Trials:
		return "numbers of trials"
	case r.Belljar != o.Belljar:
		return "versions of belljar"
	}
	return ""
}

// lines are the last line about each trial of the run.
func (d *Dir) lines() (map[Key][]byte, error) {
	tasks, last := map[string]bool{}, map[Key][]byte{}
	for _, t := range d.Run.Tasks {
		tasks[t.ID] = true
	}
	_, err := d.Lines(func(line []byte, r Result) error {
		if !tasks[r.Task] || r.Trial < 1 || r.Trial > d.Run.Trials {
			return notOurs("%s has trial %d of %.200q, which %s does not have", filepath.Join(d.Path, ResultsFile), r.Trial, r.Task, RunFile)
		}
		last[r.Key()] = bytes.Clone(line)
		return nil
	})
	return last, err
}

// take copies a shard's results, and the files that they name.
func (d *Dir) take(from *Dir, lines map[Key][]byte) error {
	for _, t := range from.Run.Tasks {
		for n := 1; n <= from.Run.Trials; n++ {
			key := Key{t.ID, n}
			line, ended := lines[key]
			if !ended {
				continue
			}
			if err := d.takeFiles(from, key, line); err != nil {
				return err
			}
			if _, err := d.results.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
	return nil
}

// The bounds of copied files.
const (
	maxLog     = 64 << 20
	maxArchive = 4 << 30 // of several steps
)

func (d *Dir) takeFiles(from *Dir, key Key, line []byte) error {
	var r Result
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	logs := Logs + "/" + key.name() + "/" + strconv.Itoa(key.Trial) + "/"
	for _, p := range r.Phases {
		for _, o := range []Output{p.Stdout, p.Stderr} {
			switch {
			case o.Log == "":
				continue
			case !strings.HasPrefix(o.Log, logs) || !filepath.IsLocal(o.Log[len(logs):]) || strings.Contains(o.Log[len(logs):], "/"):
				return notOurs("%s names %.200q as a log of %s/%d", filepath.Join(from.Path, ResultsFile), o.Log, key.Task, key.Trial)
			}
			if err := d.copy(from, o.Log, o.SHA256, maxLog); err != nil {
				return err
			}
		}
	}
	name, err := filepath.Rel(from.Path, from.ArtifactsFile(key))
	if err == nil {
		err = d.copy(from, filepath.ToSlash(name), "", maxArchive)
	}
	if errors.Is(err, fs.ErrNotExist) && len(r.Artifacts) == 0 {
		return nil
	}
	return err
}

// copy copies a file of a shard, which has that digest, if one is known.
func (d *Dir) copy(from *Dir, name, digest string, most int64) error {
	in, err := from.Open(name)
	if err != nil {
		return fmt.Errorf("copying %s: %w", filepath.Join(from.Path, name), err)
	}
	defer in.Close()
	to := filepath.Join(d.Path, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, hash), io.LimitReader(in, most+1))
	err = errors.Join(err, out.Close())
	switch {
	case err == nil && n > most:
		return notOurs("%s is over %s", in.Name(), sandbox.FormatSize(most))
	case err == nil && cmp.Or(digest, fmt.Sprintf("%x", hash.Sum(nil))) != fmt.Sprintf("%x", hash.Sum(nil)):
		return notOurs("%s has another digest than its result", filepath.Join(from.Path, name))
	}
	return err
}
