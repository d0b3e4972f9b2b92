package config

import "belljar/sandbox"

// Audit is where it is written down what is decided about commands, and how they
// end.
type Audit struct {
	Enabled bool
	File    string              // absolute
	Script  bool                // the text of scripts, too
	MaxSize int64               `mapstructure:"max_size"` // bytes of the file
	Keep    int                 // rotated files
	OnError sandbox.AuditAction `mapstructure:"on_error"`
}
