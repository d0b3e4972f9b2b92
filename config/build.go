package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"belljar/policy"
	"belljar/sandbox"
)

// build makes a Config of settings without a Problem.
func build(s sources, merged map[string]settings, own ownPaths, env map[string]string) (*Config, error) {
	typed, err := decodeAll(merged)
	if err != nil {
		return nil, err
	}
	operators, err := s.whole()
	if err != nil {
		return nil, err
	}
	theirs, err := decodeAll(operators)
	if err != nil {
		return nil, err
	}
	// No command of any profile may touch a file that any of them names.
	all := slices.AppendSeq(slices.Collect(maps.Values(typed)), maps.Values(theirs))
	top := typed[sandbox.DefaultProfile]
	c := &Config{
		File:      own.files[0],
		Engine:    top.Engine,
		Admission: sandbox.Admission{MaxRunning: top.Running, MaxQueued: cmp.Or(top.Queue.Length, sandbox.NoQueue), MaxWait: top.Queue.Wait},
		Serve:     top.Serve,
		Spool:     sandbox.Spooling{Total: top.Spool.Total, Age: top.Spool.Age, OnError: top.Spool.OnError},
		Audit:     top.Audit,
		Profiles:  map[string]sandbox.Profile{},
		StateDir:  own.state,
		settings:  list(s, merged),
	}
	c.Audit.File = cmp.Or(c.Audit.File, own.audit)
	limits := own.rules(top, theirs[sandbox.DefaultProfile])
	limits.Fixed = append(limits.Fixed, programs(all, env["PATH"])...)
	limits.Protected = append(limits.Protected, secretFiles(all)...)
	limits.Written = written(all)
	for name, v := range typed {
		rules := limits
		if rules.Commands, err = v.Policy.compile(); err != nil {
			return nil, fmt.Errorf("profile %q: %w", name, err)
		}
		c.Profiles[name] = v.profile(rules)
	}
	return c, nil
}

// written are the directories that commands may write, in any profile.
func written(profiles []values) []string {
	dirs := map[string]bool{}
	for _, v := range profiles {
		for _, m := range v.Mounts.Allow {
			if m.Mode == policy.ReadWrite && m.Volume == "" {
				dirs[m.Source] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

func decodeAll(profiles map[string]settings) (map[string]values, error) {
	typed := map[string]values{}
	for name, s := range profiles {
		v, err := s.decode()
		if err != nil {
			return nil, err
		}
		typed[name] = v
	}
	return typed, nil
}

// profile adds what the profile allows to the rules that all share.
func (v values) profile(rules policy.Rules) sandbox.Profile {
	rules.Env = v.Env.Allow
	for _, m := range v.Mounts.Allow {
		rules.Mounts = append(rules.Mounts, m.MountRule)
	}
	if v.Rootfs != writable {
		v.Limits.Disk = 0
	}
	return sandbox.Profile{
		Image:         v.Image,
		Pull:          v.Pull,
		Timeout:       v.Timeout,
		IdleTimeout:   v.IdleTimeout,
		MaxTimeout:    v.MaxTimeout,
		Workdir:       v.Workdir,
		Shell:         v.Shell,
		Tmpfs:         v.Tmpfs,
		User:          v.User,
		Env:           v.Env.Set,
		Secrets:       v.Secrets,
		Limits:        v.Limits,
		Network:       v.Network,
		Runtime:       v.Engine.Runtime,
		OnOutputLimit: v.OnOutputLimit,
		Idle:          sandbox.Idle{Stdin: v.Idle.Stdin, CPU: idleOn[v.Idle.On].CPU, IO: idleOn[v.Idle.On].IO},
		OnTimeout:     v.OnTimeout,
		StopGrace:     v.StopGrace,
		Pool:          sandbox.PoolSize{Min: v.Pool.Min, Max: cmp.Or(v.Pool.Max, sandbox.NoPool), MaxAge: v.Pool.MaxAge},
		Session:       sandbox.SessionLife{Idle: v.Session.Idle, Max: v.Session.Max},
		View: sandbox.View{
			Mode: v.View.Mode, Bytes: v.View.Bytes, Lines: v.View.Lines, LineChars: v.View.LineChars, Charset: v.View.Charset,
			Scrollback: v.View.Scrollback, ScrollbackBytes: v.View.ScrollbackBytes,
		},
		Streams:    v.Streams,
		Encoding:   v.Encoding,
		LiveEvery:  v.View.Every,
		Summarize:  v.Summarize,
		AskTimeout: v.Policy.AskTimeout,
		Policy:     rules,
	}
}

// ownPaths are belljar's own files.
type ownPaths struct {
	files [2]string // the configuration's, and the operator's next to an untrusted file, or ""
	dirs  []string
	state string // one of them: the state directory, or ""
	audit string // the audit log's default path
}

func belljarPaths(file, operators string, env map[string]string) ownPaths {
	own := ownPaths{files: [2]string{file, operators}, dirs: []string{"/var/lib/belljar"}}
	for _, dir := range []string{
		userDir(env),
		xdgDir(env, "XDG_STATE_HOME", ".local/state"),
		xdgDir(env, "XDG_DATA_HOME", ".local/share"),
		xdgDir(env, "XDG_CACHE_HOME", ".cache"),
	} {
		if dir != "" {
			own.dirs = append(own.dirs, dir)
		}
	}
	own.state = stateDir(env)
	own.audit = auditFile(own.state, env["TMPDIR"])
	if own.state == "" {
		own.dirs = append(own.dirs, filepath.Dir(own.audit))
	}
	return own
}

// auditFile is below a private directory of the user in the system's temporary
// directory, as outputs are, if there is no state directory.
func auditFile(state, temporary string) string {
	if state == "" {
		return filepath.Join(cmp.Or(temporary, "/tmp"), fmt.Sprintf("belljar-audit-%d", os.Getuid()), "audit.jsonl")
	}
	return filepath.Join(state, "audit", "audit.jsonl")
}

// stateDir is "" for a user without one: belljar does not make home directories.
func stateDir(env map[string]string) string {
	if filepath.IsAbs(env["XDG_STATE_HOME"]) || isDir(env["HOME"]) {
		return xdgDir(env, "XDG_STATE_HOME", ".local/state")
	}
	if os.Getuid() == 0 { // a system service
		return "/var/lib/belljar"
	}
	return ""
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// rules apply to every profile: those of the settings and of the operator's file.
func (own ownPaths) rules(of ...values) policy.Rules {
	var rules policy.Rules
	for _, file := range own.files {
		if file != "" {
			rules.Fixed = append(rules.Fixed, resolved(file)...)
		}
	}
	paths := own.dirs
	for _, v := range of {
		if v.Audit.File != "" {
			paths = append(paths, filepath.Dir(v.Audit.File)) // its directory also has the rotated files and the head
		}
		paths = append(paths, v.Serve.TokenFile, v.Serve.TLSCert, v.Serve.TLSKey, v.Serve.ClientCA, v.Serve.Replicas.CA, socket(v.Serve.Listen), socket(v.Engine.Host), v.Engine.Kubernetes.Kubeconfig)
	}
	written := map[string]bool{"": true}
	for _, p := range paths {
		if !written[p] {
			rules.Protected = append(rules.Protected, resolved(p)...)
		}
		written[p] = true
	}
	return rules
}

// resolved is the path in its resolved directory and, if it is a link, also its
// target: to replace the link is as bad as to write the file.
func resolved(p string) []string {
	in := filepath.Join(resolve(filepath.Dir(p)), filepath.Base(p))
	if target := resolve(p); target != in {
		return []string{in, target}
	}
	return []string{in}
}

func socket(address string) string {
	if u, err := url.Parse(address); err == nil && u.Scheme == "unix" {
		return u.Path
	}
	return ""
}
