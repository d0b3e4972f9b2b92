package sandbox

import "time"

// EventType names what an Event tells.
type EventType string

// The event types. A command's events end with one EventResult. Before
// EventStart, if it started, there are only notices.
const (
	EventStart  EventType = "start"
	EventStdout EventType = "stdout"
	EventStderr EventType = "stderr"
	EventNotice EventType = "notice"
	EventView   EventType = "view" // with LiveView: the end of the output, as Data
	EventResult EventType = "result"
)

// Event is one moment of a running command.
type Event struct {
	Type   EventType
	Seq    uint64 // counts from 1 without gaps
	Time   time.Time
	Data   []byte  // of stdout, stderr, notice and view
	Binary bool    // of stdout and stderr: no text so far; of notice: it tells of that
	Result *Result // of result
	Waits  bool    // of notice: it says what is waited for, which matters only meanwhile
}
