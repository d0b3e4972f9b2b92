package sandbox

import "time"

// LogInfo is what is known of a command whose output is kept.
type LogInfo struct {
	ID      string    `json:"id"`
	Command string    `json:"command"` // its beginning
	Profile string    `json:"profile"`
	Session string    `json:"session,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`   // zero while it runs; where its belljar died, of the last output
	Expires time.Time `json:"expires,omitzero"` // when it may be removed
	Keep    int64     `json:"keep_seconds"`     // from its end until then
	Running bool      `json:"running"`
	*LogEnd           // nil while it runs, and where its belljar died: its fate is not known then
}

// LogEnd is how a command ended, and what it wrote until then.
type LogEnd struct {
	Status   Status    `json:"status"`
	ExitCode int       `json:"exit_code"`
	Stdout   LogStream `json:"stdout"`
	Stderr   LogStream `json:"stderr"`
}

// LogStream is what a command wrote to one stream, kept or not.
type LogStream struct {
	Bytes  int64  `json:"bytes"`
	Lines  int64  `json:"lines"`
	SHA256 string `json:"sha256"`
}
