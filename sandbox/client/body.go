package client

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"belljar/sandbox"
)

// body is a command as the API takes it. Fields that are not set are left to the
// profile.
type body struct {
	ID          string `json:"id,omitempty"`
	Command     string `json:"command"`
	Encoding    string `json:"command_encoding,omitempty"` // of Command: "base64" where it is no text
	Description string `json:"description,omitempty"`
	Shell       string `json:"shell,omitempty"`
	Dir         string `json:"dir,omitempty"`

	place
	bounds
	showing

	Env     map[string]string `json:"env,omitempty"`
	Inherit []string          `json:"inherit,omitempty"` // "NAME=value" of the caller's environment, or "NAME" where it has none
	Rules   *rulesBody        `json:"rules,omitempty"`
	Open    bool              `json:"stdin_open,omitempty"`
	Files   []fileBody        `json:"files,omitempty"`
	Collect []string          `json:"collect,omitempty"`
}

type fileBody struct {
	Path     string `json:"path"`
	Content  []byte `json:"content"`
	Encoding string `json:"encoding"`       // base64, as JSON has bytes
	Mode     string `json:"mode,omitempty"` // octal
}

// place is where a command runs.
type place struct {
	Session  string             `json:"session,omitempty"`
	Parallel bool               `json:"parallel,omitempty"`
	Existing bool               `json:"existing,omitempty"`
	Profile  string             `json:"profile,omitempty"`
	Image    string             `json:"image,omitempty"`
	Pull     sandbox.PullPolicy `json:"pull,omitempty"`
	Mounts   []mountBody        `json:"mounts,omitempty"`
	Tmpfs    []string           `json:"tmpfs,omitempty"`
	Network  string             `json:"network,omitempty"`
	Runtime  string             `json:"runtime,omitempty"`
	User     string             `json:"user,omitempty"`
}

type mountBody struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	Writable bool   `json:"writable,omitempty"`
}

// bounds are what ends a command.
type bounds struct {
	Limits        *limitsBody           `json:"limits,omitempty"`
	Timeout       float64               `json:"timeout_seconds,omitempty"`
	IdleTimeout   *float64              `json:"idle_timeout_seconds,omitempty"` // 0 is none
	Idle          *idleBody             `json:"idle,omitempty"`
	OnOutputLimit sandbox.OutputAction  `json:"on_output_limit,omitempty"`
	OnTimeout     sandbox.TimeoutAction `json:"on_timeout,omitempty"`
	StopGrace     *float64              `json:"stop_grace_seconds,omitempty"` // 0 is none
}

type limitsBody struct {
	Memory int64   `json:"memory_bytes,omitempty"`
	CPUs   float64 `json:"cpus,omitempty"`
	Pids   int64   `json:"pids,omitempty"`
	Output int64   `json:"output_bytes,omitempty"`
	Result int64   `json:"result_bytes,omitempty"`
	Tmp    int64   `json:"tmp_bytes,omitempty"`
	Files  int64   `json:"files,omitempty"`
	Disk   int64   `json:"disk_bytes,omitempty"`
}

type idleBody struct {
	Stdin bool `json:"stdin,omitempty"`
	CPU   bool `json:"cpu,omitempty"`
	IO    bool `json:"io,omitempty"`
}

// showing is how its output is shown.
type showing struct {
	TTY           *ttyBody         `json:"tty,omitempty"`
	View          *viewBody        `json:"view,omitempty"`
	Live          sandbox.LiveMode `json:"live,omitempty"`
	Streams       sandbox.Streams  `json:"streams,omitempty"`
	OutputEncoded sandbox.Encoding `json:"encoding,omitempty"`
}

type ttyBody struct {
	sizeBody
	Term string `json:"term,omitempty"`
}

type sizeBody struct {
	Rows    int `json:"rows"`
	Columns int `json:"cols"`
}

func sizeOf(s sandbox.TerminalSize) *sizeBody {
	s = s.Bounded()
	return &sizeBody{s.Rows, s.Columns}
}

type viewBody struct {
	Mode            sandbox.ViewMode `json:"mode,omitempty"`
	Bytes           int64            `json:"bytes,omitempty"`
	Lines           int64            `json:"lines,omitempty"`
	LineChars       int64            `json:"line_chars,omitempty"`
	Charset         string           `json:"charset,omitempty"`
	TailOnly        bool             `json:"tail_only,omitempty"`
	Scrollback      int64            `json:"scrollback,omitempty"`
	ScrollbackBytes int64            `json:"scrollback_bytes,omitempty"`
}

type rulesBody struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Set   string   `json:"set,omitempty"`
}

// encode writes a command as JSON. What JSON cannot carry unchanged is refused: it would
// be another command.
func encode(c sandbox.Command) ([]byte, error) {
	b := body{ID: c.ID, Command: c.Script, Description: c.Description, Shell: c.Shell, Dir: c.Dir, Open: c.Stdin != nil, Collect: c.Collect}
	b.Env, b.Inherit = variables(c)
	b.place = place{Session: c.Session, Parallel: c.Parallel, Existing: c.Existing, Profile: c.Profile, Image: c.Image, Pull: c.Pull, Tmpfs: c.Tmpfs, Network: c.Network, Runtime: c.Runtime}
	if c.User != (sandbox.User{}) {
		b.User = c.User.String()
	}
	texts := slices.Concat([]string{c.ID, c.Description, c.Shell, c.Dir, c.Session, c.Profile, c.Image, c.Network, c.Runtime, b.User, c.View.Charset}, c.Env, b.Inherit, c.Tmpfs, c.Rules.Allow, c.Rules.Deny, c.Collect)
	for _, f := range c.Files {
		b.Files = append(b.Files, fileBody{f.Path, append([]byte{}, f.Content...), "base64", fmt.Sprintf("%04o", cmp.Or(f.Mode.Perm(), 0o644))})
		texts = append(texts, f.Path)
	}
	for _, m := range c.Mounts {
		b.Mounts = append(b.Mounts, mountBody{m.Source, m.Target, m.Writable})
		texts = append(texts, m.Source, m.Target)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return nil, sandbox.Invalid("the sidecar's API can carry only text: pass it on stdin, or in a mounted file", "%.80q is not valid UTF-8", text)
		}
	}
	if !utf8.ValidString(c.Script) {
		b.Command, b.Encoding = base64.StdEncoding.EncodeToString([]byte(c.Script)), "base64"
	}
	if r := c.Rules; len(r.Allow)+len(r.Deny) > 0 || r.Set != "" {
		b.Rules = &rulesBody{r.Allow, r.Deny, r.Set}
	}
	b.bounds, b.showing = boundsOf(c), showingOf(c)
	return json.Marshal(b)
}

// variables are those that the command sets, and those that it takes from the caller's
// environment.
func variables(c sandbox.Command) (set map[string]string, inherit []string) {
	callers := map[string]string{}
	for _, kv := range c.Inherit {
		name, _, _ := strings.Cut(kv, "=")
		callers[name] = kv
	}
	for _, kv := range c.Env {
		name, value, isSet := strings.Cut(kv, "=")
		switch whole, has := callers[name]; {
		case isSet && set == nil:
			set = map[string]string{name: value}
		case isSet:
			set[name] = value
		case has:
			inherit = append(inherit, whole)
		default:
			inherit = append(inherit, name)
		}
	}
	return set, inherit
}

func boundsOf(c sandbox.Command) bounds {
	b := bounds{Timeout: c.Timeout.Seconds(), IdleTimeout: orNone(c.IdleTimeout, sandbox.NoIdleTimeout), OnOutputLimit: c.OnOutputLimit, OnTimeout: c.OnTimeout, StopGrace: orNone(c.StopGrace, sandbox.NoStopGrace)}
	if c.Limits != (sandbox.Limits{}) {
		limits := limitsBody(c.Limits)
		b.Limits = &limits
	}
	if c.Idle != (sandbox.Idle{}) {
		idle := idleBody(c.Idle)
		b.Idle = &idle
	}
	return b
}

// orNone is a time in seconds: nil for 0, which is the profile's, and 0 for none.
func orNone(d, none time.Duration) *float64 {
	seconds := d.Seconds()
	switch d {
	case 0:
		return nil
	case none:
		seconds = 0
	}
	return &seconds
}

func showingOf(c sandbox.Command) showing {
	s := showing{Live: c.Live, Streams: c.Streams, OutputEncoded: c.Encoding}
	if c.TTY != nil {
		s.TTY = &ttyBody{sizeBody: *sizeOf(*c.TTY)}
		for _, kv := range c.Inherit {
			if term, ok := strings.CutPrefix(kv, "TERM="); ok {
				s.TTY.Term = term
			}
		}
	}
	if v := c.View; v != (sandbox.View{}) {
		s.View = &viewBody{v.Mode, v.Bytes, v.Lines, v.LineChars, v.Charset, v.TailOnly, v.Scrollback, v.ScrollbackBytes}
	}
	return s
}
