package local

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"belljar/sandbox"
)

// environ is the command's environment beyond the container's: what a terminal sets, the profile's
// variables, then the caller's that the policy allows, then those that the command sets.
// callerEnv lists the variables that the caller asked for: as "NAME=value",
// or as "NAME" where the value was taken from the caller's environment.
func environ(c sandbox.Command, p sandbox.Profile) (all, callerEnv []string, err error) {
	inherited := map[string]string{}
	for _, kv := range c.Inherit {
		name, value, _ := strings.Cut(kv, "=")
		inherited[name] = value
	}
	// Only a rule gives a secret to a command, even if the allow list names it.
	secret := func(name string) bool {
		return slices.ContainsFunc(p.Secrets, func(s sandbox.Secret) bool { return name == s.Name || name == secretVariable(s) })
	}
	allowed := func(name string) bool { return p.Policy != nil && p.Policy.AllowEnv(name) && !secret(name) }

	env, callers := map[string]string{}, map[string]string{}
	if c.TTY != nil {
		env["TERM"], env["PAGER"], env["GIT_TERMINAL_PROMPT"] = terminalName(inherited["TERM"]), "cat", "1"
	}
	for _, kv := range p.Env {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	for name, value := range inherited {
		if allowed(name) {
			env[name], callers[name] = value, name
		}
	}
	for _, kv := range c.Env {
		name, value, byValue := strings.Cut(kv, "=")
		if name == "" {
			return nil, nil, errNoName
		}
		if strings.ContainsFunc(name, unicode.IsControl) {
			return nil, nil, sandbox.Invalid("write NAME=value, with letters, digits and _ in NAME", "variable %s has a control character in its name", strconv.QuoteToASCII(name))
		}
		if slices.ContainsFunc(p.Secrets, func(s sandbox.Secret) bool { return name == s.Name }) {
			return nil, nil, sandbox.Invalid("leave it out: a policy rule grants it, or the script sets it", "variable %s is a secret of profile %q", strconv.QuoteToASCII(name), c.Profile)
		}
		if !byValue {
			if secret(name) {
				return nil, nil, &sandbox.Error{Cause: sandbox.CauseDenied, Message: "variable " + strconv.QuoteToASCII(name) + " is the source of a secret, so the caller cannot pass it", Hint: "a policy rule grants the secret"}
			}
			if !allowed(name) {
				return nil, nil, &sandbox.Error{Cause: sandbox.CauseDenied, Message: "variable " + strconv.QuoteToASCII(name) + " is not in env.allow, so the caller cannot pass it",
					Hint: "give its value: -e NAME=value, or allow the name in sandbox.yaml"}
			}
			continue // passed above, if the caller has it
		}
		env[name], callers[name] = value, kv
	}
	all, err = checkEnviron(env)
	return all, slices.Sorted(maps.Values(callers)), err
}

// terminalName is the caller's TERM, so that a command in a terminal knows what it can
// draw, even where the policy does not allow TERM. It must look like a terminfo name;
// otherwise a common one is used.
func terminalName(term string) string {
	const chars = "abcdefghijklmnopqrstuvwxyz0123456789.+-"
	if term == "" || len(term) > 64 || strings.Trim(term, chars) != "" {
		return "xterm-256color"
	}
	return term
}

var errNoName = sandbox.Invalid("write NAME=value", "a variable has no name")

// checkEnviron refuses what the kernel or the engine cannot pass on, and sorts.
func checkEnviron(env map[string]string) ([]string, error) {
	list := make([]string, 0, len(env))
	size := 0
	for name, value := range env {
		kv := name + "=" + value
		switch {
		case name == "":
			return nil, errNoName
		case strings.ContainsRune(kv, 0):
			return nil, sandbox.Invalid("environment variables cannot contain NUL bytes", "variable %s has a NUL byte", strconv.QuoteToASCII(name))
		case !utf8.ValidString(kv):
			return nil, sandbox.Invalid("pass it on stdin, or in a mounted file", "variable %s is not valid UTF-8, which is all that the engine's API can carry unchanged", strconv.QuoteToASCII(name))
		case len(kv) > sandbox.MaxArgument:
			return nil, sandbox.Invalid("pass it on stdin, or in a mounted file", "variable %s is %d bytes long, over the kernel's limit of %d (MAX_ARG_STRLEN)", strconv.QuoteToASCII(name), len(kv), sandbox.MaxArgument)
		}
		size += len(kv) + 1
		list = append(list, kv)
	}
	if size > sandbox.MaxEnviron {
		return nil, sandbox.Invalid("pass less, or in a mounted file", "the environment is %d bytes, over the limit of %d", size, sandbox.MaxEnviron)
	}
	slices.Sort(list)
	return list, nil
}
