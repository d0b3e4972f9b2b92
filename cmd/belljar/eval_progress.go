package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	evalrun "belljar/eval/run"
)

// evalProgress shows on a terminal how far a run is.
type evalProgress struct {
	to  io.Writer // nil shows nothing
	all int

	mu           sync.Mutex
	first        time.Time // when the first trial began
	counts       map[evalrun.Verdict]int
	begins, done int
	unbegun      int // of those done
}

func newEvalProgress(all int) *evalProgress {
	return &evalProgress{to: progress(), all: all, counts: map[evalrun.Verdict]int{}}
}

func (p *evalProgress) begun() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begins++; p.begins == 1 {
		p.first = time.Now()
	}
	p.show()
}

func (p *evalProgress) ended(r evalrun.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[r.Verdict]++
	p.done++
	if r.Verdict == evalrun.Skipped && r.Attempt == 0 {
		p.unbegun++
	}
	p.show()
}

// show writes the line again. The caller holds the lock.
func (p *evalProgress) show() {
	if p.to == nil {
		return
	}
	running := max(0, p.begins-p.done+p.unbegun)
	failed := p.counts[evalrun.Failed] + p.counts[evalrun.Timeout] + p.counts[evalrun.OOM]
	line := fmt.Sprintf("%d of %d done, %d running, %d passed, %d failed, %d tampered, %d errors", p.done, p.all, running, p.counts[evalrun.Passed], failed, p.counts[evalrun.Tampered], p.counts[evalrun.Error])
	if p.done > 0 {
		left := time.Duration(float64(time.Since(p.first)) / float64(p.done) * float64(max(0, p.all-p.done)))
		line += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	fmt.Fprint(p.to, "\rbelljar: "+line+" \x1b[K")
}

func (p *evalProgress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.to != nil && p.begins > 0 {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
