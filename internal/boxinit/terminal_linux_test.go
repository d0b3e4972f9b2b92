package boxinit

import (
	"testing"
	"time"
)

// Once a bug: a pause that was over, of a terminal that was not looked at all the same, kept the loop from waiting.
func TestPauseOfATerminalEnds(t *testing.T) {
	full := &conn{size: enough + 1}
	p := &proc{of: client{conn: full}, stdin: -1, terminal: true, away: time.Unix(1, 0)}
	p.streams[0], p.streams[1] = stream{fd: 0}, stream{fd: -1}
	if p.poll(new(loop)); p.streams[0].at >= 0 || !p.away.IsZero() {
		t.Errorf("while its client takes nothing it is looked at: %v, and away until %v", p.streams[0].at >= 0, p.away)
	}
	p.away, p.streams[0].fd = time.Now().Add(time.Hour), -1
	if p.release(); !p.away.IsZero() {
		t.Errorf("it was released, and is away until %v", p.away)
	}
}
