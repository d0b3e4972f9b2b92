// Package approvals is where commands that need a person's approval wait for it, so that
// several front ends of one server can ask and answer.
//
// Two rules: a question is answered once, by the first who does; and an answer is to the question that was
// read. An execution's ID does not name that where callers choose it: the same one may be asked about again.
//
//	var waiting approvals.Approvals // the Runner's Approver
//	for _, q := range waiting.Waiting() {
//		…
//	}
//	answered := waiting.Answer(q.ID, q.Name, sandbox.Approval{Answer: sandbox.AnswerOnce, By: "ann"})
package approvals

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"

	"belljar/sandbox"
)

// Approvals are the questions that wait for an answer. It is the sandbox.Approver of a
// server. The zero Approvals is ready.
type Approvals struct {
	mu       sync.Mutex
	waiting  map[string]*waiting     // by the question's ID, which is the execution's
	watching map[string][]chan Asked // by the ID of a question that may come
}

type waiting struct {
	Asked
	answer chan answer // has room for the one
	gone   chan struct{}
}

// answer is a person's, or why no one can be asked.
type answer struct {
	sandbox.Approval
	err error
}

// Asked is a question that waits.
type Asked struct {
	sandbox.Question
	Name string          // of this question; no other has it
	Gone <-chan struct{} // closed once it is answered, or its time is over
}

// Approve implements sandbox.Approver: it waits for an answer.
func (a *Approvals) Approve(ctx context.Context, q sandbox.Question) (sandbox.Approval, error) {
	w, err := a.ask(q)
	if err != nil {
		return sandbox.Approval{}, err
	}
	select {
	case given := <-w.answer:
		return given.Approval, given.err
	case <-ctx.Done():
		a.take(q.ID, w.Name)
		return sandbox.Approval{}, ctx.Err()
	}
}

func (a *Approvals) ask(q sandbox.Question) (*waiting, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[q.ID] != nil { // an answer is for one command
		return nil, fmt.Errorf("asking about %s: another question with this ID waits", q.ID)
	}
	if a.waiting == nil {
		a.waiting = map[string]*waiting{}
	}
	gone := make(chan struct{})
	w := &waiting{Asked{q, rand.Text(), gone}, make(chan answer, 1), gone}
	a.waiting[q.ID] = w
	for _, watcher := range a.watching[q.ID] {
		watcher <- w.Asked
	}
	delete(a.watching, q.ID)
	return w, nil
}

// take removes a question, which is answered once. Without a name it is any about that execution.
func (a *Approvals) take(id, name string) *waiting {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.waiting[id]
	if w == nil || name != "" && name != w.Name {
		return nil
	}
	close(w.gone)
	delete(a.waiting, id)
	return w
}

// Answer answers the question of that name. It is false if that does not wait, also if another one about the same
// execution does.
func (a *Approvals) Answer(id, name string, given sandbox.Approval) bool {
	return name != "" && a.end(id, name, answer{Approval: given})
}

// Decline denies what a question is about, because no one can be asked: err says why.
func (a *Approvals) Decline(id string, err error) bool { return a.end(id, "", answer{err: err}) }

func (a *Approvals) end(id, name string, given answer) bool {
	w := a.take(id, name)
	if w != nil {
		w.answer <- given
	}
	return w != nil
}

// Waiting are the questions, the oldest deadline first.
func (a *Approvals) Waiting() (list []Asked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiting {
		list = append(list, w.Asked)
	}
	slices.SortFunc(list, func(a, b Asked) int { return a.Deadline.Compare(b.Deadline) })
	return list
}

// Watch sends the question about the execution with that ID, if one waits, or comes before stop.
func (a *Approvals) Watch(id string) (question <-chan Asked, stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	watcher := make(chan Asked, 1)
	if w := a.waiting[id]; w != nil {
		watcher <- w.Asked
		return watcher, func() {}
	}
	if a.watching == nil {
		a.watching = map[string][]chan Asked{}
	}
	a.watching[id] = append(a.watching[id], watcher)
	return watcher, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		left := slices.DeleteFunc(a.watching[id], func(w chan Asked) bool { return w == watcher })
		if a.watching[id] = left; len(left) == 0 {
			delete(a.watching, id)
		}
	}
}
