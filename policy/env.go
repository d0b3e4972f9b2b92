package policy

import (
	"slices"
	"strings"
)

// steering variables decide which code runs, or which servers it contacts.
var steering = []string{
	// what the loader, the shell and the interpreters run or load
	"PATH", "LD_*", "GLIBC_TUNABLES", "GCONV_PATH",
	"ENV", "BASH_ENV", "IFS", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "CDPATH",
	"HOME", "XDG_CONFIG_*", // where programs find their settings
	"PYTHON*", "PERL*", "RUBY*", "NODE_*", "LUA_*", "CLASSPATH", "*JAVA*OPTIONS",
	// what programs run or which servers they contact
	"GIT_*", "DOCKER_*", "SSH_*", "BELLJAR_*",
}

// dangerous variables change what runs, or hold secrets. No glob lets them
// through, since the author of the glob did not mean them.
var dangerous = append(steering[:len(steering):len(steering)],
	"AWS_*", "*TOKEN*", "*KEY", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*")

// Steers implements sandbox.Policy.
func (r Rules) Steers(setting string) bool {
	name, value, known := strings.Cut(setting, "=")
	if known && slices.Contains(charsetVariables, name) && !plainLocale.MatchString(value) {
		return true
	}
	upper := strings.ToUpper(name)
	return matchAny(steering, upper) || matchAny(shellVariables, name) || matchAny(npmVariables, upper) || matchAny([]string{"*_PROXY", "SSL_CERT_*", "CURL_*", "NPM_CONFIG_*REGISTRY", "DEBUGINFOD_URLS"}, upper)
}

// AllowEnv reports whether the caller's variable of that name may be passed on.
func (r Rules) AllowEnv(name string) bool {
	if !isName(name) {
		return false
	}
	if slices.Contains(r.Env, name) {
		return true
	}
	return matchAny(r.Env, name) && !Dangerous(name)
}

// credentials are further names of variables that often hold secrets.
var credentials = []string{
	"*PASS*", "*_PWD", "*_AUTH*", "*_PAT", "*_CREDS", "*_KEY_*", "*_KEYS", "*_DSN", "*JWT*", "*BEARER*", "*COOKIE*", "*WEBHOOK*",
	"*_PROXY", "*DATABASE_URL", "*REDIS_URL", "*MONGO*_UR*", "*AMQP*_UR*", "NETRC", "KUBECONFIG",
}

// Dangerous reports whether no glob lets a variable of that name through.
func Dangerous(name string) bool {
	return isDangerous(name) || matchAny(credentials, strings.ToUpper(name))
}

func isDangerous(name string) bool { return matchAny(dangerous, strings.ToUpper(name)) }

// isName reports whether a shell could set the variable. It rejects functions
// that bash exports, such as "BASH_FUNC_ls%%".
func isName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func matchAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return match(glob, name) })
}

// match reports whether name matches glob, in which "*" stands for any bytes.
func match(glob, name string) bool {
	first, rest, isGlob := strings.Cut(glob, "*")
	if !isGlob {
		return glob == name
	}
	name, ok := strings.CutPrefix(name, first)
	for ok {
		if first, rest, isGlob = strings.Cut(rest, "*"); !isGlob {
			return strings.HasSuffix(name, first)
		}
		_, name, ok = strings.Cut(name, first)
	}
	return false
}
