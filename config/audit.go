package config

import "belljar/sandbox"

// Audit is where decisions about commands, and how commands end, are
// recorded.
type Audit struct {
	Enabled bool
	File    string              // absolute
	Script  bool                // record the text of scripts, too
	MaxSize int64               `mapstructure:"max_size"` // bytes of the file
	Keep    int                 // rotated files
	OnError sandbox.AuditAction `mapstructure:"on_error"`
}
