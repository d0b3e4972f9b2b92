package boxlink

import (
	"context"

	"belljar/internal/boxinit/wire"
	"belljar/sandbox"
)

// Around is what the init tells of the container around a process: as soon as it has ended what runs and what these are, and,
// if that is asked for, what the texts were before it started. To ask then takes a round trip each, which is long where the
// container is far away. At the end of a process with a terminal nothing is told: what its hangup ends would seem to be left.
type Around struct {
	Texts  []string // files, see Link.Texts
	Spaces []string // directories, see Link.Spaces
	Before bool
}

// around are these questions, and their answers.
type around struct {
	names, dirs                int
	before                     *call // nil: not asked
	taken, list, texts, spaces *call // at the end; nil: the init does not know that question
}

// askAround are the requests, which go before that to start the process. The link is locked.
func (p *Process) askAround(ask Around) (lines []byte) {
	l := p.link
	a := &around{names: len(ask.Texts), dirs: len(ask.Spaces)}
	p.around = a
	texts := (&wire.LookRequest{What: wire.LookText, Names: ask.Texts}).Encode(nil)
	if ask.Before {
		a.before = l.newCall()
		lines = wire.AppendLine(lines, l.nonce, wire.Look, a.before.id, texts)
	}
	if p.asked.TTY != nil {
		return lines
	}
	a.taken, a.list, a.texts, a.spaces = l.newCall(), l.newCall(), l.newCall(), l.newCall()
	spaces := (&wire.LookRequest{What: wire.LookSpace, Names: ask.Spaces}).Encode(nil)
	request := wire.AtExitRequest{Process: p.id, Requests: []wire.Request{
		{Kind: wire.List, ID: a.list.id}, {Kind: wire.Look, ID: a.texts.id, Body: texts}, {Kind: wire.Look, ID: a.spaces.id, Body: spaces},
	}}
	return wire.AppendLine(lines, l.nonce, wire.AtExit, a.taken.id, request.Encode(nil))
}

// checkAround is called once it is known whether the process started, or was not asked for. It forgets the questions of its end where
// no answer comes: without a process, and from an init that does not know them.
func (p *Process) checkAround(sent, started bool) {
	a := p.around
	if a == nil {
		return
	}
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	if !sent && a.before != nil {
		delete(p.link.calls, a.before.id)
	}
	if a.taken == nil {
		return
	}
	forget := []*call{a.list, a.texts, a.spaces}
	select {
	case <-a.taken.answered:
		if started {
			return
		}
	default:
		forget = append(forget, a.taken)
	}
	for _, c := range forget {
		delete(p.link.calls, c.id)
	}
	a.taken, a.list, a.texts, a.spaces = nil, nil, nil, nil
}

// TextsBefore are the texts as they were before the process. Not ok is that the init did not tell them.
func (p *Process) TextsBefore(ctx context.Context) (texts []string, ok bool) {
	if p.around == nil {
		return nil, false
	}
	records, ok := p.link.lookedFor(ctx, p.around.before, p.around.names)
	return textsOf(records), ok
}

// lookedFor are the records of a question that may not have been asked.
func (l *Link) lookedFor(ctx context.Context, c *call, names int) ([][]string, bool) {
	if c == nil {
		return nil, false
	}
	if _, err := l.await(ctx, c); err != nil {
		return nil, false
	}
	records, _, err := c.looked(names, 1)
	return records, err == nil
}

// ProcessesAtExit are those of Link.Processes, as they were when the process had just ended. Not ok is that the init did not
// tell them all.
func (p *Process) ProcessesAtExit(ctx context.Context, keeper int) (list []sandbox.Process, ok bool) {
	if p.around == nil || p.around.list == nil {
		return nil, false
	}
	c, err := p.link.await(ctx, p.around.list)
	if err != nil {
		return nil, false
	}
	found, err := c.listing()
	if err != nil {
		return nil, false
	}
	list, missed := found.processes(keeper)
	return list, missed == 0
}

// LookAtExit are the texts and the spaces, as they were then. Not ok is that the init did not tell them.
func (p *Process) LookAtExit(ctx context.Context) (texts []string, spaces []Space, ok bool) {
	if p.around == nil {
		return nil, nil, false
	}
	of, ok := p.link.lookedFor(ctx, p.around.texts, p.around.names)
	if !ok {
		return nil, nil, false
	}
	left, ok := p.link.lookedFor(ctx, p.around.spaces, p.around.dirs)
	if !ok {
		return nil, nil, false
	}
	spaces, err := spacesOf(left)
	return textsOf(of), spaces, err == nil
}
