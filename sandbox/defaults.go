package sandbox

import "time"

// Settings are those of a Runner: what applies to a command that does not override it,
// and what bounds all commands together.
type Settings struct {
	Profile   Profile // DefaultProfile
	Admission Admission
	Spool     Spooling
}

// Defaults are the settings that belljar ships with. Each is safe: no root, no
// network, and nothing is unlimited. sandbox.yaml writes out the same values, and
// adds a policy, which the zero Policy here is not: it allows no variables and no
// mounts, and judges no scripts.
func Defaults() Settings {
	return Settings{
		Profile: Profile{
			Image:         "belljar/base",
			Pull:          PullMissing,
			Timeout:       10 * time.Minute,
			IdleTimeout:   3 * time.Minute,
			MaxTimeout:    time.Hour,
			Workdir:       "/work",
			Shell:         ShellSh,
			User:          User{UID: 65534, GID: 65534},
			Env:           []string{"LANG=C.UTF-8"},
			Limits:        Limits{Memory: 512 << 20, CPUs: 1, Pids: 128, Output: 16 << 20, Result: 16 << 20, Tmp: 64 << 20, Files: 1024},
			Network:       "none",
			OnOutputLimit: OutputTruncate,
			OnTimeout:     EndContainer,
			Pool:          PoolSize{Min: 2, Max: 8, MaxAge: 10 * time.Minute},
			Session:       SessionLife{Idle: 30 * time.Minute, Max: 8 * time.Hour},
			View:          View{Mode: ViewNone, Bytes: 32 << 10, Lines: 1000, LineChars: 2000, Scrollback: 1000, ScrollbackBytes: 256 << 10},
			Encoding:      EncodingExact,
			LiveEvery:     time.Second,
			Summarize:     Summarize{Over: 32 << 10, Timeout: 10 * time.Second}, // with no program: off
			AskTimeout:    5 * time.Minute,
		},
		Admission: Admission{MaxRunning: 32, MaxQueued: 256, MaxWait: time.Minute},
		Spool:     Spooling{Total: 1 << 30, Age: time.Hour, OnError: SpoolContinue},
	}
}
