package httpapi

import (
	"encoding/base64"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"belljar/cmd/internal/access"
	"belljar/internal/names"
	"belljar/sandbox"
)

// RunRequest is what a caller asks to run.
type RunRequest struct {
	Command     string `json:"command" doc:"A shell script, passed to sh -c unchanged."`
	Encoded     string `json:"command_encoding,omitempty" enum:"utf-8,base64" doc:"How command is written: base64 where it is not UTF-8."`
	ID          string `json:"id,omitempty" maxLength:"64" doc:"Names the execution. Chosen if it is left out."`
	Description string `json:"description,omitempty" maxLength:"1000" doc:"What the command is for: shown to those who approve it, and in the audit log."`
	Shell       string `json:"shell,omitempty" enum:"sh,bash,auto"`
	Dir         string `json:"dir,omitempty" doc:"In the container: absolute, or relative to the profile's workdir."`
	Session     string `json:"session,omitempty" maxLength:"64" doc:"Run in this session. It is made if there is none."`
	Parallel    bool   `json:"parallel,omitempty" doc:"Run at the same time as the session's other parallel commands."`
	Existing    bool   `json:"existing,omitempty" doc:"Refuse the command unless the session exists when its turn comes."`
	Profile     string `json:"profile,omitempty"`
	Place
	Bounds
	Stdio
	Shown
	Carried
	CancelOnDisconnect bool `json:"cancel_on_disconnect,omitempty" doc:"Cancel the command if the caller that waits for it goes away, or the last one that has its terminal."`
}

// Place is where a command runs.
type Place struct {
	Image   string            `json:"image,omitempty"`
	Pull    string            `json:"pull,omitempty" enum:"always,missing,never"`
	User    string            `json:"user,omitempty" doc:"UID:GID or a name that the image knows; never 0."`
	Env     map[string]string `json:"env,omitempty"`
	Inherit []string          `json:"inherit,omitempty" doc:"Variables of the caller's own environment, which env.allow must have: NAME=value, or NAME where it is not set."`
	Mounts  []mount           `json:"mounts,omitempty"`
	Tmpfs   []string          `json:"tmpfs,omitempty" doc:"More directories in memory."`
	Network string            `json:"network,omitempty"`
	Runtime string            `json:"runtime,omitempty" doc:"An OCI runtime that the engine knows, such as runsc."`
}

type mount struct {
	Source   string `json:"source" doc:"On the engine's host, absolute; or the name of a volume: on Kubernetes, a PersistentVolumeClaim in engine.kubernetes.namespace."`
	Target   string `json:"target" doc:"In the container, absolute."`
	Writable bool   `json:"writable,omitempty"`
}

// Bounds are those of a command.
type Bounds struct {
	Limits        limits   `json:"limits,omitempty"`
	Timeout       *float64 `json:"timeout_seconds,omitempty" exclusiveMinimum:"0" maximum:"31536000"`
	IdleTimeout   *float64 `json:"idle_timeout_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"Without activity; 0 turns it off."`
	Idle          idle     `json:"idle,omitempty" doc:"What counts as activity, apart from output."`
	OnOutputLimit string   `json:"on_output_limit,omitempty" enum:"truncate,end"`
	OnTimeout     string   `json:"on_timeout,omitempty" enum:"container,command"`
	StopGrace     *float64 `json:"stop_grace_seconds,omitempty" minimum:"0" maximum:"60" doc:"From SIGTERM to SIGKILL; 0 is SIGKILL at once."`
	Rules         rules    `json:"rules,omitempty" doc:"Take away from what the policy allows."`
}

type limits struct {
	Memory int64   `json:"memory_bytes,omitempty" minimum:"0"`
	CPUs   float64 `json:"cpus,omitempty" minimum:"0"`
	Pids   int64   `json:"pids,omitempty" minimum:"0"`
	Output int64   `json:"output_bytes,omitempty" minimum:"0" doc:"What is kept of stdout and stderr."`
	Result int64   `json:"result_bytes,omitempty" minimum:"0" doc:"What of that is in the result."`
	Tmp    int64   `json:"tmp_bytes,omitempty" minimum:"0"`
	Files  int64   `json:"files,omitempty" minimum:"0"`
	Disk   int64   `json:"disk_bytes,omitempty" minimum:"0" doc:"What may be written to the root file system, where the profile lets commands."`
}

type idle struct {
	Stdin bool `json:"stdin,omitempty"`
	CPU   bool `json:"cpu,omitempty"`
	IO    bool `json:"io,omitempty"`
}

type rules struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Set   string   `json:"set,omitempty"`
}

// Stdio is a command's stdin and terminal.
type Stdio struct {
	Stdin         string `json:"stdin,omitempty"`
	StdinEncoding string `json:"stdin_encoding,omitempty" enum:"utf-8,base64"`
	StdinOpen     bool   `json:"stdin_open,omitempty" doc:"More of stdin follows by POST /v1/executions/{id}/stdin, until its eof."`
	TTY           *tty   `json:"tty,omitempty"`
}

type tty struct {
	Size
	Term string `json:"term,omitempty" doc:"The caller's TERM, such as vt220. Without it, or if it is no terminal's name: xterm-256color."`
}

// Size is a terminal's.
type Size struct {
	Rows int `json:"rows" minimum:"0" maximum:"65535"`
	Cols int `json:"cols" minimum:"0" maximum:"65535"`
}

func (s Size) size() sandbox.TerminalSize {
	return sandbox.TerminalSize{Columns: s.Cols, Rows: s.Rows}
}

// Shown is what a caller gets to see.
type Shown struct {
	View     view   `json:"view,omitempty"`
	Live     string `json:"live,omitempty" enum:"raw,view"`
	Streams  string `json:"streams,omitempty" enum:"full,view,none"`
	Encoding string `json:"encoding,omitempty" enum:"exact,replace"`
}

type view struct {
	Mode            string `json:"mode,omitempty" enum:"none,separate,merged"`
	Bytes           int64  `json:"bytes,omitempty" minimum:"0"`
	Lines           int64  `json:"lines,omitempty" minimum:"0"`
	LineChars       int64  `json:"line_chars,omitempty" minimum:"0"`
	Charset         string `json:"charset,omitempty"`
	TailOnly        bool   `json:"tail_only,omitempty"`
	Scrollback      int64  `json:"scrollback,omitempty" minimum:"0"`
	ScrollbackBytes int64  `json:"scrollback_bytes,omitempty" minimum:"0"`
}

// command is the request as the Runner takes it, without its stdin. Env is what the
// request says: the sidecar's environment is not the caller's.
func (r *RunRequest) command(who access.Identity) (sandbox.Command, error) {
	c := sandbox.Command{
		ID: r.ID, Script: r.Command, Shell: r.Shell, Dir: r.Dir, Description: r.Description, Session: r.Session, Parallel: r.Parallel, Existing: r.Existing, Profile: r.Profile,
		Caller: sandbox.Caller{FrontEnd: "http", Token: who.Name},
		Image:  r.Image, Pull: sandbox.PullPolicy(r.Pull), Tmpfs: r.Tmpfs, Network: r.Network, Runtime: r.Runtime,
		Limits:  sandbox.Limits(r.Limits),
		Timeout: seconds(r.Timeout, 0), IdleTimeout: seconds(r.IdleTimeout, sandbox.NoIdleTimeout), Idle: sandbox.Idle(r.Idle),
		OnOutputLimit: sandbox.OutputAction(r.OnOutputLimit), OnTimeout: sandbox.TimeoutAction(r.OnTimeout), StopGrace: seconds(r.StopGrace, sandbox.NoStopGrace),
		Rules: sandbox.Rules(r.Rules),
		View: sandbox.View{Mode: sandbox.ViewMode(r.View.Mode), Bytes: r.View.Bytes, Lines: r.View.Lines, LineChars: r.View.LineChars, Charset: r.View.Charset,
			TailOnly: r.View.TailOnly, Scrollback: r.View.Scrollback, ScrollbackBytes: r.View.ScrollbackBytes},
		Live: sandbox.LiveMode(r.Live), Streams: sandbox.Streams(r.Streams), Encoding: sandbox.Encoding(r.Encoding),
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		if strings.Contains(name, "=") { // it would be another variable
			return c, sandbox.Invalid("write the value after the name's colon", "variable %.80q has a = in its name", name)
		}
		c.Env = append(c.Env, name+"="+r.Env[name])
	}
	for _, kv := range r.Inherit {
		name, _, set := strings.Cut(kv, "=")
		c.Env = append(c.Env, name)
		if set {
			c.Inherit = append(c.Inherit, kv)
		}
	}
	for _, m := range r.Mounts {
		c.Mounts = append(c.Mounts, sandbox.Mount{Source: m.Source, Target: m.Target, Writable: m.Writable})
	}
	if r.TTY != nil {
		size := r.TTY.size()
		c.TTY = &size
		if r.TTY.Term != "" {
			c.Inherit = append(c.Inherit, "TERM="+r.TTY.Term)
		}
	}
	script, err := decoded("command", r.Command, r.Encoded)
	if err == nil {
		c.Script = string(script)
		err = r.addTo(&c)
	}
	if err != nil || r.User == "" {
		return c, err
	}
	c.User, err = names.ParseUser(r.User)
	return c, err
}

// seconds is a time that may be left out, and zero if it is 0.
func seconds(s *float64, zero time.Duration) time.Duration {
	switch {
	case s == nil:
		return 0
	case *s == 0:
		return zero
	}
	return time.Duration(math.Ceil(*s * float64(time.Second)))
}

// stdin is what the request has of it.
func (i Stdio) stdin() ([]byte, error) { return decoded("stdin", i.Stdin, i.StdinEncoding) }

// decoded is a field's bytes.
func decoded(field, text, encoding string) ([]byte, error) {
	if encoding != "base64" {
		return []byte(text), nil
	}
	bytes, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, sandbox.Invalid("encode it with base64, with padding", "%s is not base64: %v", field, err)
	}
	return bytes, nil
}
