package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"belljar/config"
	"belljar/policy"
	"belljar/sandbox"
)

// project is the profile's: what the operator has not decided is as a project needs it.
type project struct {
	config  *config.Config
	profile string // its name
	dir     string // to serve: absolute, free of links
	write   bool
}

// directory is the directory to serve, "" being the working directory.
func directory(name string) (string, error) {
	dir, err := filepath.Abs(name)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		var about os.FileInfo
		if about, err = os.Stat(dir); err == nil && !about.IsDir() {
			err = syscall.ENOTDIR
		}
	}
	if err != nil {
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			err = failed.Err
		}
		return "", usagef("the directory %q cannot be served: %v: name another with --dir", name, err)
	}
	return dir, nil
}

// decided reports whether the operator set a key of the profile.
func (p project) decided(key string) bool {
	return slices.ContainsFunc(p.config.Settings(), func(s config.Setting) bool {
		return (s.Key == key || s.Key == "profiles."+p.profile+"."+key) && s.Source != "default"
	})
}

// apply makes the directory a mount of the profile's commands.
func (p project) apply() error {
	profile, err := p.config.Profile(p.profile)
	if err != nil {
		return err
	}
	rules := profile.Policy.(policy.Rules)
	if !slices.ContainsFunc([]string{"policy.default", "policy.set", "policy.rules"}, p.decided) {
		build, _ := policy.Bundled("build")
		build.Default = policy.Ask
		if rules.Commands, err = build.Compile(); err != nil {
			return err
		}
	}
	if !p.decided("mounts.allow") {
		mode := policy.ReadOnly
		if p.write {
			mode = policy.ReadWrite
			rules.Written = append(slices.Clone(rules.Written), p.dir)
		}
		rules.Mounts = []policy.MountRule{{Source: p.dir, Target: profile.Workdir, Mode: mode}}
	}
	if !p.decided("user") {
		if profile.User, err = p.user(profile.User); err != nil {
			return err
		}
	}
	mount := sandbox.Mount{Source: p.dir, Target: profile.Workdir, Writable: p.write}
	if err := p.check(rules, mount); err != nil {
		return err
	}
	profile.Policy, profile.Mounts = rules, append(slices.Clone(profile.Mounts), mount)
	for name, other := range p.config.Profiles {
		other.Pool.Max = sandbox.NoPool // no one runs commands with them
		p.config.Profiles[name] = other
	}
	p.config.Profiles[p.profile] = profile
	return nil
}

// check refuses a directory that has more than a project in it.
func (p project) check(rules policy.Rules, mount sandbox.Mount) error {
	const instead = "run it in the directory of a project, or name that with --dir"
	if isHome(p.dir) {
		return &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("%q is your home directory, or contains it: your keys and settings are not for an agent", p.dir), Hint: instead}
	}
	err := rules.CheckMount(mount)
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		more := *e
		if p.decided("mounts.allow") {
			more.Hint = "allow it in mounts.allow of your sandbox.yaml, or name another directory with --dir"
		} else if p.dir == "/" || !strings.Contains(e.Message, "belljar's configuration") {
			more.Hint = instead
		}
		return &more
	}
	return err
}

// isHome reports whether this user's home is in the directory.
func isHome(dir string) bool {
	homes := []string{os.Getenv("HOME")}
	if account, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		homes = append(homes, account.HomeDir)
	}
	return slices.ContainsFunc(homes, func(home string) bool {
		home, err := filepath.EvalSymlinks(home)
		return err == nil && policy.Within(dir, home)
	})
}

// user is who commands run as: this user or, for root, the owner of the directory. Commands
// never run as root.
func (p project) user(other sandbox.User) (sandbox.User, error) {
	if uid := os.Getuid(); uid != 0 {
		return sandbox.User{UID: uid, GID: os.Getgid()}, nil
	}
	about, err := os.Stat(p.dir)
	if err != nil {
		return other, err
	}
	if owner, ok := about.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
		return sandbox.User{UID: int(owner.Uid), GID: int(owner.Gid)}, nil
	}
	if p.write && about.Mode().Perm()&0o002 == 0 {
		return other, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("commands never run as root, and %q belongs to root, so --write has no effect", p.dir),
			Hint: "give the directory to another user: chown -R 1000:1000 " + p.dir}
	}
	return other, nil
}
