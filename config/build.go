package config

import (
	"net/url"
	"path/filepath"

	"belljar/policy"
	"belljar/sandbox"
)

// build makes a Config of settings without a Problem.
func build(s sources, merged map[string]settings, own ownPaths) (*Config, error) {
	typed := map[string]values{}
	for name, m := range merged {
		v, err := m.decode()
		if err != nil {
			return nil, err
		}
		typed[name] = v
	}
	top := typed[sandbox.DefaultProfile]
	c := &Config{
		File:      own.file,
		Engine:    top.Engine,
		Pool:      top.Pool,
		Policy:    top.Policy,
		Serve:     top.Serve,
		Profiles:  map[string]sandbox.Profile{},
		OnTimeout: map[string]TimeoutAction{},
		settings:  list(s, merged),
	}
	limits := own.rules(top)
	for name, v := range typed {
		c.Profiles[name] = v.profile(limits)
		c.OnTimeout[name] = v.OnTimeout
	}
	return c, nil
}

// profile adds what the profile allows to the rules of all.
func (v values) profile(rules policy.Rules) sandbox.Profile {
	rules.Env = v.Env.Allow
	for _, m := range v.Mounts.Allow {
		rules.Mounts = append(rules.Mounts, m.MountRule)
	}
	return sandbox.Profile{
		Image:         v.Image,
		Pull:          v.Pull,
		Timeout:       v.Timeout,
		IdleTimeout:   v.IdleTimeout,
		MaxTimeout:    v.MaxTimeout,
		Workdir:       v.Workdir,
		User:          v.User,
		Env:           v.Env.Set,
		Limits:        v.Limits,
		Network:       v.Network,
		Runtime:       v.Engine.Runtime,
		OnOutputLimit: v.OnOutputLimit,
		Policy:        rules,
	}
}

// ownPaths are belljar's own files.
type ownPaths struct {
	file string // the configuration's, or ""
	dirs []string
}

func belljarPaths(file string, env map[string]string) ownPaths {
	own := ownPaths{file: file, dirs: []string{"/var/lib/belljar"}}
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
	return own
}

// rules are those of every profile.
func (own ownPaths) rules(v values) policy.Rules {
	var rules policy.Rules
	if own.file != "" {
		rules.Fixed = resolved(own.file)
	}
	for _, p := range append(own.dirs, v.Serve.TokenFile, socket(v.Serve.Listen), socket(v.Engine.Host)) {
		if p != "" {
			rules.Protected = append(rules.Protected, resolved(p)...)
		}
	}
	return rules
}

// resolved is the path in its resolved directory and, where it is a link, what
// it points at: to replace the link is as bad as to write the file.
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
