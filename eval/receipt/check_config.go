package receipt

import (
	"slices"
	"strings"

	"belljar/eval/run"
)

// configuration compares what the trials ran with: as run.json says it, as the receipt
// does, and as it is now.
func (c *checker) configuration(now *Statement) {
	is := map[string][]string{} // an image's name may have had several digests
	for _, r := range now.Predicate.Configuration {
		is[r.Name] = append(is[r.Name], r.SHA256())
	}
	named := map[string]bool{}
	for _, r := range c.signed.Predicate.Configuration {
		switch r.Name {
		case belljarName:
			c.add(Unchecked, belljarName, r.Annotations["version"], "this is what ran; it need not be what verifies")
			continue
		case auditName:
			c.audit(r.SHA256())
			continue
		}
		what, name := configKind(r.Name)
		named[r.Name] = true
		switch {
		case !slices.Contains(is[r.Name], r.SHA256()):
			c.same(what, name, r.SHA256(), strings.Join(is[r.Name], " and "))
		case what == "image" && strings.HasPrefix(name, "sha256:"):
			c.add(Unchecked, what, name, "results.jsonl has it, and no task names it")
		case what != "task" && what != "image":
			c.add(Matches, what, name, "")
		}
	}
	for _, r := range now.Predicate.Configuration {
		if !named[r.Name] && r.Name != belljarName {
			what, name := configKind(r.Name)
			c.add(Differs, what, name, "the run has sha256:%s, and the receipt does not", r.SHA256())
		}
	}
	for _, t := range c.dir.Run.Tasks {
		c.task(t)
	}
	c.images()
}

func configKind(name string) (what, of string) {
	if of, ok := strings.CutPrefix(name, taskName); ok {
		return "task", of
	}
	if of, ok := strings.CutPrefix(name, imageName); ok {
		return "image", of
	}
	return name, ""
}

func (c *checker) audit(head string) {
	if c.with.Audit == nil {
		c.add(Unchecked, auditName, "sha256:"+head, "this host has no audit log")
		return
	}
	if err := c.with.Audit(head); err != nil {
		c.add(Unchecked, auditName, "sha256:"+head, "%v", err)
		return
	}
	c.add(Matches, auditName, "sha256:"+head, "")
}

// signedSum is the only digest that the receipt has for a name, or "".
func (c *checker) signedSum(name string) string {
	sum := ""
	for _, r := range c.signed.Predicate.Configuration {
		if r.Name == name {
			if sum != "" {
				return ""
			}
			sum = r.SHA256()
		}
	}
	return sum
}

// task compares a task as it is now with the receipt, and names the files that differ.
func (c *checker) task(t run.Task) {
	signed := c.signedSum(taskName + t.ID)
	switch {
	case signed == "" || digest(t.SHA256)["sha256"] != signed:
		return // which is said already
	case !c.untouched:
		c.add(Unchecked, "task", t.ID, "where it comes from is in run.json, which differs")
		return
	case c.with.Task == nil:
		c.add(Unchecked, "task", t.ID, "not asked for")
		return
	}
	sum, files, err := c.with.Task(t)
	if err != nil {
		c.add(Unchecked, "task", t.ID, "reading %s: %v", t.Source, err)
		return
	}
	if sum == signed {
		c.add(Matches, "task", t.ID, "")
		return
	}
	if changed := c.changed(t, files); !changed {
		c.add(Differs, "task", t.ID, "%s is sha256:%s; the receipt has sha256:%s", t.Source, sum, signed)
	}
}

// changed names the files of a task that are not what they were.
func (c *checker) changed(t run.Task, files []run.File) (found bool) {
	was, is := map[string]string{}, map[string]string{}
	for _, f := range t.Files {
		was[f.Path] = f.SHA256
	}
	for _, f := range files {
		is[f.Path] = f.SHA256
		if was[f.Path] == "" {
			found = true
			c.add(Differs, "task file", t.ID+":"+f.Path, "it was added to %s", t.Source)
		}
	}
	for _, f := range t.Files {
		if is[f.Path] != f.SHA256 {
			found = true
			c.same("task file", t.ID+":"+f.Path, f.SHA256, is[f.Path])
		}
	}
	return found
}

// images compares what the tasks' image names lead to now.
func (c *checker) images() {
	seen := map[string]bool{}
	for _, r := range c.signed.Predicate.Configuration {
		what, name := configKind(r.Name)
		if what != "image" || seen[name] || strings.HasPrefix(name, "sha256:") {
			continue
		}
		seen[name] = true
		signed := c.signedSum(r.Name)
		if signed == "" {
			c.add(Differs, "image", name, "it was more than one image while the run lasted")
			continue
		}
		if c.with.Image == nil {
			c.add(Unchecked, "image", name, "not asked for")
			continue
		}
		now, err := c.with.Image(c.ctx, name)
		if err != nil {
			c.add(Unchecked, "image", name, "%v", err)
			continue
		}
		c.same("image", name, signed, digest(now)["sha256"])
	}
}
