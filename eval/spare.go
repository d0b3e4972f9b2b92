package eval

import (
	"context"
	"time"

	"belljar/eval/run"
	"belljar/sandbox"
)

// spare is a container for tests that is made before it is needed: for the real grading while the agent works, and
// for the next control while the tests run. Nothing ran there but what places the tests, and only the trial that
// made it takes it, once.
type spare struct {
	of     string // the tests: see trial.spareKey
	box    *box
	began  time.Time
	placed sandbox.Result
	took   time.Duration
	known  chan struct{} // closed once it is known whether there is a container
	made   bool
}

// spareAge is how old a spare may be: sessions that no one uses are removed, and for work that takes longer another
// container costs nothing.
const spareAge = time.Minute

// spareKey says which tests a container has.
func (t *trial) spareKey(c control) string { return t.key() + c.name }

// aheadOfAgent has one made while the agent works. An agent on this host can reach all containers of its user: the tests
// are nowhere while one works.
func (t *trial) aheadOfAgent(ctx context.Context) {
	if t.aside || t.harness.Dir.Run.Agent.Kind != run.Program {
		t.ahead(ctx, control{})
		return
	}
	t.dropSpare() // an earlier step's
	t.removing.Wait()
}

// ahead has a container made for a grading.
func (t *trial) ahead(ctx context.Context, c control) {
	t.dropSpare()
	g := t.task.Grader
	if g.By == run.ByExpect || g.Shared || len(t.task.Steps.List) > 0 || ctx.Err() != nil {
		return
	}
	b := t.graderBox()
	s, command := &spare{of: t.spareKey(c), box: b, began: time.Now(), known: make(chan struct{})}, b.base
	t.placing(b, c)(&command)
	t.spare = s
	t.removing.Go(func() {
		defer close(s.known)
		r, err := sandbox.Run(ctx, t.harness.Runner, command)
		s.placed, s.took = r, time.Since(s.began)
		if s.made = err == nil && r.Status == sandbox.StatusSuccess; !s.made {
			b.remove(ctx) // what is wrong, the grading finds out
		}
	})
}

// takeSpare returns the container that was made ahead for a grading, and waits for it if it is being made. It is nil
// without one.
func (t *trial) takeSpare(c control) *spare {
	if s := t.spare; s != nil && s.of == t.spareKey(c) && time.Since(s.began) < spareAge {
		t.spare = nil
		if <-s.known; s.made {
			return s
		}
	}
	t.dropSpare()
	return nil
}

// dropSpare removes what no one took.
func (t *trial) dropSpare() {
	if s := t.spare; s != nil {
		t.spare = nil
		t.removing.Go(func() {
			if <-s.known; s.made {
				s.box.remove(context.Background())
			}
		})
	}
}
