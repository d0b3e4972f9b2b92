// Package wire is what a container's init and the host say to each other.
//
// The host sends lines: a tag, a Kind, an ID, a length and a body, with newlines and
// backslashes escaped. The tag begins the nonce of the client's Hello. So what an earlier
// client still had on its way means nothing, whole or cut: one client may follow another
// on the same stream. The init answers with frames: a Kind, an ID, a length and a body.
//
// Both sides check every length. To the host, what comes from a container is hostile.
package wire

// Version is of this protocol. Another one is not understood.
const Version = 2

// Charge is how much of its Window a frame of data takes: a small one has its cost, too.
func Charge(size int) int { return max(size, MinCharge) }

const (
	// MinCharge is what a frame of data is charged at least.
	MinCharge = 128
	// MaxRequest bounds a line, in bytes before they are escaped: a script and an environment.
	MaxRequest = 8 << 20
	// MaxFrame bounds a frame's body.
	MaxFrame = 64 << 10
	// MaxListing bounds the records of all processes, in bytes. Those that do not fit are left out.
	MaxListing = 3 << 20
	// Header is the length of a frame's header.
	Header = 9
	// Window is how much of a stream may be on its way, in bytes: the receiver
	// allows more once it has been passed on.
	Window = 256 << 10
	// NonceSize is the length of a hello's body.
	NonceSize = 16
	// TagSize is how much of it begins each line.
	TagSize = 4
	// LineHeader is what a line has before its body.
	LineHeader = TagSize + 9
)

// Marker comes before the answer to a hello, followed by its nonce. What comes before
// that was meant for an earlier client.
const Marker = "\x00belljar-init\x00"

// Kind is the first byte of every message.
type Kind byte

// Requests. The ID is the process's, or, for those that Done answers, the request's own.
const (
	Hello    Kind = 'h' // nonce
	Start    Kind = 's' // StartRequest
	Stdin    Kind = 'd' // data, within the process's Window
	EndStdin Kind = 'e' //
	Allow    Kind = 'c' // stream byte, more bytes that may be sent (4 bytes)
	Resize   Kind = 'w' // Size
	Release  Kind = 'x' // the init closes its ends of the process's streams
	Signal   Kind = 'k' // SignalRequest
	Stop     Kind = 'z' // SIGSTOP for all but the init
	Continue Kind = 'g' // SIGCONT for all but the init
	Kill     Kind = 'K' // SIGKILL for all but the init; Done once they are reaped
	End      Kind = 'q' // as Kill, and then the init ends
	Stay     Kind = 't' // the end of this connection does not end the init any more
	Leave    Kind = 'b' // the client is about to go; its connection stays, for the next one
	List     Kind = 'l' // Listed, any number of times, and Done
	Look     Kind = 'f' // LookRequest; Listed, once for each name, and Done
	AtExit   Kind = 'a' // AtExitRequest, before the process's Start; Done at once
	Ping     Kind = 'p'
)

// Answers.
const (
	Welcome    Kind = 'H' // version (4 bytes); comes after Marker and the nonce
	Started    Kind = 'S' // StartedAnswer
	NotStarted Kind = 'N' // Refusal
	Stdout     Kind = '1' // data, see PutData
	Stderr     Kind = '2' // data, see PutData
	Ended      Kind = 'E' // the Kind of a stream, Stdout or Stderr, that ended; or Stdin: it is not read any more
	Exited     Kind = 'X' // ExitedAnswer
	Rested     Kind = 'R' // the process has ended, and all that was in its streams then has been sent
	Allowed    Kind = 'c' // how many more bytes of stdin may be sent (4 bytes)
	Listed     Kind = 'L' // a record of texts
	Done       Kind = 'A' // errno (4 bytes), 0 is success
	Garbled    Kind = 'G' // a request of this client came with parts missing or added
)

// Reason is why a process was not started.
type Reason byte

// The reasons. Refusal.Errno has the details.
const (
	Failed        Reason = iota // anything else
	NoProgram                   // it is not on the PATH
	NotExecutable               // it is there, but cannot be executed
	NoDir                       // the directory does not exist, or the user cannot enter it
	NoProcess                   // the limit of processes is reached
	NoMemory                    // memory ran out
	TooLong                     // arguments and environment are longer than the kernel takes
	Stuck                       // another process stopped it before it began: it was killed
	BadRequest                  // the request cannot be read, or asks for what no command gets
)

// Size is a terminal's.
type Size struct{ Rows, Columns uint16 }

// StartRequest is a process to start.
type StartRequest struct {
	UID, GID uint32
	Stdin    bool  // a pipe; else /dev/null. With a terminal it is that
	Terminal *Size // nil for none
	Dir      string
	Args     []string // the first one is looked up on Env's PATH
	Env      []string // complete
}

// Encode appends the request.
func (s *StartRequest) Encode(b []byte) []byte {
	b = AppendUint32(AppendUint32(b, s.UID), s.GID)
	b = append(b, flag(s.Stdin), flag(s.Terminal != nil))
	if s.Terminal != nil {
		b = s.Terminal.Encode(b)
	}
	b = appendString(b, s.Dir)
	for _, list := range [][]string{s.Args, s.Env} {
		b = AppendUint32(b, uint32(len(list)))
		for _, text := range list {
			b = appendString(b, text)
		}
	}
	return b
}

// DecodeStart reads a request.
func DecodeStart(b []byte) (*StartRequest, bool) {
	r := reader{rest: b}
	s := &StartRequest{UID: r.uint32(), GID: r.uint32(), Stdin: r.byte() != 0}
	if r.byte() != 0 {
		s.Terminal = &Size{Rows: r.uint16(), Columns: r.uint16()}
	}
	s.Dir = r.string()
	s.Args, s.Env = r.strings(), r.strings()
	return s, r.done() && len(s.Args) > 0
}

// Encode appends the size.
func (s Size) Encode(b []byte) []byte {
	return append(b, byte(s.Rows>>8), byte(s.Rows), byte(s.Columns>>8), byte(s.Columns))
}

// DecodeSize reads a size.
func DecodeSize(b []byte) (s Size, ok bool) {
	r := reader{rest: b}
	s = Size{Rows: r.uint16(), Columns: r.uint16()}
	return s, r.done()
}

// SignalRequest is a signal for one process.
type SignalRequest struct {
	PID        uint32
	StartTicks uint64 // with PID it names one process; 0 is not checked
	Signal     uint32
}

// Encode appends the request.
func (s SignalRequest) Encode(b []byte) []byte {
	return AppendUint32(appendUint64(AppendUint32(b, s.PID), s.StartTicks), s.Signal)
}

// DecodeSignal reads a request.
func DecodeSignal(b []byte) (s SignalRequest, ok bool) {
	r := reader{rest: b}
	s = SignalRequest{PID: r.uint32(), StartTicks: r.uint64(), Signal: r.uint32()}
	return s, r.done()
}

// StartedAnswer is a process that runs.
type StartedAnswer struct {
	PID        uint32
	StartTicks uint64 // proc_pid_stat(5)
	Files      byte   // how many descriptors come with this answer
}

// Encode appends the answer.
func (s StartedAnswer) Encode(b []byte) []byte {
	return append(appendUint64(AppendUint32(b, s.PID), s.StartTicks), s.Files)
}

// DecodeStarted reads an answer.
func DecodeStarted(b []byte) (s StartedAnswer, ok bool) {
	r := reader{rest: b}
	s = StartedAnswer{PID: r.uint32(), StartTicks: r.uint64(), Files: r.byte()}
	return s, r.done() && s.PID > 1 && s.PID <= maxPID
}

// LookRequest asks for what is known of files, by their names. Each has a record that begins with "", or
// with an errno in decimal.
type LookRequest struct {
	What   byte   // LookText, LookMode or LookSpace
	Image  bool   // what is mounted does not count: then it is EXDEV
	Offset uint32 // of a text
	Names  []string
}

// What a LookRequest asks for.
const (
	LookText  = 't' // up to MaxText bytes of a regular file
	LookMode  = 'm' // st_mode, of a link itself and then of what it leads to, in decimal
	LookSpace = 's' // of the file system: its type, and its free blocks and inodes, in decimal, in one text
)

// MaxText is how much of a file is in one record.
const MaxText = 48 << 10

// Encode appends the request.
func (l *LookRequest) Encode(b []byte) []byte {
	b = AppendUint32(append(b, l.What, flag(l.Image)), l.Offset)
	b = AppendUint32(b, uint32(len(l.Names)))
	for _, name := range l.Names {
		b = appendString(b, name)
	}
	return b
}

// DecodeLook reads a request.
func DecodeLook(b []byte) (*LookRequest, bool) {
	r := reader{rest: b}
	l := &LookRequest{What: r.byte(), Image: r.byte() != 0, Offset: r.uint32(), Names: r.strings()}
	return l, r.done() && (l.What == LookText || l.What == LookMode || l.What == LookSpace)
}

// Refusal is why a process does not run.
type Refusal struct {
	Reason Reason
	Errno  uint32
	Step   string // what failed
}

// Encode appends the answer.
func (f Refusal) Encode(b []byte) []byte {
	return appendString(AppendUint32(append(b, byte(f.Reason)), f.Errno), f.Step)
}

// DecodeRefusal reads an answer.
func DecodeRefusal(b []byte) (f Refusal, ok bool) {
	r := reader{rest: b}
	f = Refusal{Reason: Reason(r.byte()), Errno: r.uint32(), Step: r.string()}
	return f, r.done() && f.Reason <= BadRequest && len(f.Step) <= 256
}

// ExitedAnswer is how a process ended.
type ExitedAnswer struct {
	Status uint32 // its exit status, or 128 and its signal
	When   int64  // nanoseconds since 1970 on the container's clock, which is its kernel's
}

// Encode appends the answer.
func (e ExitedAnswer) Encode(b []byte) []byte {
	return appendUint64(AppendUint32(b, e.Status), uint64(e.When))
}

// DecodeExited reads an answer.
func DecodeExited(b []byte) (e ExitedAnswer, ok bool) {
	r := reader{rest: b}
	e = ExitedAnswer{Status: r.uint32(), When: int64(r.uint64())}
	return e, r.done() && e.Status <= 255
}

// maxPID is the kernel's greatest limit of PIDs (proc(5), pid_max).
const maxPID = 1 << 22

// AppendRecord appends what a Listed answer carries: texts, each with its length.
func AppendRecord(b []byte, texts ...[]byte) []byte {
	for _, text := range texts {
		b = append(AppendUint32(b, uint32(len(text))), text...)
	}
	return b
}

// maxTexts is how many texts a record has at most.
const maxTexts = 3

// DecodeRecord reads the texts of a record.
func DecodeRecord(b []byte) (texts []string, ok bool) {
	r := reader{rest: b}
	for len(r.rest) > 0 && len(texts) < maxTexts {
		texts = append(texts, r.string())
	}
	return texts, r.done()
}
