package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"belljar/eval/run"
	"belljar/sandbox"
)

// Options are what a receipt says besides what is in the run's directory.
type Options struct {
	Program string // the SHA-256 of belljar's own program, in hex
	Audit   string // that of the audit log's last record
}

// maxResources bounds a receipt: results with many artifacts make a long one.
const maxResources = 1 << 20

// Make is the statement about a run's directory as it is now.
func Make(d *run.Dir, o Options) (*Statement, error) {
	s := &Statement{Type: "https://in-toto.io/Statement/v1", PredicateType: PredicateType}
	for _, name := range []string{run.RunFile, run.ResultsFile} {
		sum, err := sumOf(d, name)
		if err != nil {
			return nil, err
		}
		s.Subject = append(s.Subject, Resource{Name: name, Digest: digest(sum)})
	}
	lines, err := lastLines(d)
	if err != nil {
		return nil, err
	}
	s.Predicate = predicate(d.Run, lines)
	s.Predicate.Configuration = configuration(d.Run, lines, o)
	for _, l := range lines {
		s.Subject = append(s.Subject, l.resources()...)
		if len(s.Subject) > maxResources {
			return nil, sandbox.Invalid("run the suite in parts: --shard", "the run has over %d artifacts", maxResources)
		}
	}
	return s, nil
}

// line is a line of results.jsonl that counts.
type line struct {
	run.Result
	sum string
}

func (l line) test() string { return fmt.Sprintf("%s/%d", l.Task, l.Trial) }

// resources are the line, and the artifacts that it names.
func (l line) resources() []Resource {
	list := []Resource{{Name: lineName + l.test(), Digest: digest(l.sum)}}
	for _, a := range l.Artifacts {
		if of := digest(a.SHA256); of != nil { // what has no digest can not be a subject: the line has it
			list = append(list, Resource{Name: artifactName + l.test() + ":" + a.Path, Digest: of})
		}
	}
	return list
}

// lastLines are the last line of each trial of the run, by task and trial.
func lastLines(d *run.Dir) ([]line, error) {
	last := map[run.Key]line{}
	_, err := d.Lines(func(text []byte, r run.Result) error {
		last[r.Key()] = line{r, sumText(text)}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, task := range d.Run.Tasks {
		for n := 1; n <= d.Run.Trials; n++ {
			key := run.Key{Task: task.ID, Trial: n}
			if l, ended := last[key]; ended {
				lines = append(lines, l)
				delete(last, key)
			}
		}
	}
	for key := range last {
		return nil, sandbox.Invalid("it is not one that belljar wrote", "%s has trial %d of %.200q, which %s does not have", run.ResultsFile, key.Trial, key.Task, run.RunFile)
	}
	return lines, nil
}

// predicate sorts the tests by how they ended.
func predicate(r run.Run, lines []line) Predicate {
	p := Predicate{Run: r.ID, Passed: []string{}, Warned: []string{}, Failed: []string{}, Tampered: []string{}, NotCounted: []string{}}
	ended := map[run.Key]bool{}
	for _, l := range lines {
		ended[l.Key()] = true
		switch {
		case l.Verdict == run.Passed && l.Sealed && r.Options.Controls:
			p.Passed = append(p.Passed, l.test())
		case l.Verdict == run.Passed:
			p.Warned = append(p.Warned, l.test())
		case l.Counts():
			p.Failed = append(p.Failed, l.test())
			if l.Verdict == run.Tampered {
				p.Tampered = append(p.Tampered, l.test())
			}
		default:
			p.NotCounted = append(p.NotCounted, l.test())
		}
	}
	for _, task := range r.Tasks {
		for n := 1; n <= r.Trials; n++ {
			if key := (run.Key{Task: task.ID, Trial: n}); !ended[key] {
				p.NotCounted = append(p.NotCounted, fmt.Sprintf("%s/%d", task.ID, n))
			}
		}
	}
	switch {
	case len(p.Failed) > 0 || len(p.Passed)+len(p.Warned) == 0:
		p.Result = OutcomeFailed
	case len(p.Warned)+len(p.NotCounted) > 0:
		p.Result = OutcomeWarned
	default:
		p.Result = OutcomePassed
	}
	return p
}

// configuration is what the tests ran with.
func configuration(r run.Run, lines []line, o Options) []Resource {
	list := []Resource{
		{Name: belljarName, Digest: digest(o.Program), Annotations: map[string]string{"version": r.Belljar}},
		{Name: configName, Digest: digest(r.Config)},
		{Name: suiteName, Digest: digest(r.Suite.SHA256)},
	}
	if o.Audit != "" {
		list = append(list, Resource{Name: auditName, Digest: digest(o.Audit)})
	}
	images := map[string]bool{}
	image := func(name, sum string) {
		if of := digest(sum); of != nil && !images[name+"@"+of["sha256"]] {
			images[name+"@"+of["sha256"]], images[of["sha256"]] = true, true
			list = append(list, Resource{Name: imageName + name, Digest: of})
		}
	}
	for _, t := range r.Tasks {
		list = append(list, Resource{Name: taskName + t.ID, Digest: digest(t.SHA256)})
		image(t.Image, t.Digest)
		for _, i := range t.Images {
			image(i.Name, i.Digest)
		}
	}
	for _, l := range lines {
		for _, p := range l.Phases {
			if of := digest(p.Image); of != nil && !images[of["sha256"]] { // of a name that had another when the run began
				image("sha256:"+of["sha256"], p.Image)
			}
		}
	}
	return slices.DeleteFunc(list, func(r Resource) bool { return r.Digest == nil && r.Annotations == nil })
}

// maxHashed bounds a file that is read to compare its digest: a log, run.json or a tar.
const maxHashed = 16 << 30

// sumOf is the SHA-256 of a file of the run.
func sumOf(d *run.Dir, name string) (string, error) {
	f, err := d.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(f, maxHashed+1))
	if err == nil && n > maxHashed {
		err = errors.New("it is over " + sandbox.FormatSize(maxHashed))
	}
	if err != nil {
		return "", fmt.Errorf("reading %q in %q: %w", name, d.Path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func sumText(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
