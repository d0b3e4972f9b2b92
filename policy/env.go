package policy

import (
	"slices"
	"strings"
)

// steering variables decide which code runs, or which servers it talks to.
var steering = []string{
	// what the loader, the shell and the interpreters run or load
	"PATH", "LD_*", "GLIBC_TUNABLES", "GCONV_PATH",
	"ENV", "BASH_ENV", "IFS", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "CDPATH",
	"PYTHON*", "PERL*", "RUBY*", "NODE_*", "LUA_*", "CLASSPATH", "*JAVA*OPTIONS",
	// what programs run or which servers they talk to
	"GIT_*", "DOCKER_*", "SSH_*", "BELLJAR_*",
}

// dangerous variables steer, or hold what should not leak. No glob lets them
// through, since anyone who wrote the glob had others in mind.
var dangerous = append(steering[:len(steering):len(steering)],
	"AWS_*", "*TOKEN*", "*KEY", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*")

// Steers implements sandbox.Policy.
func (r Rules) Steers(name string) bool {
	upper := strings.ToUpper(name)
	return matchAny(steering, upper) || matchAny(shellVariables, name) || matchAny([]string{"*_PROXY", "SSL_CERT_*", "CURL_*"}, upper)
}

// AllowEnv says whether the caller's variable of that name may pass.
func (r Rules) AllowEnv(name string) bool {
	if !isName(name) {
		return false
	}
	if slices.Contains(r.Env, name) {
		return true
	}
	return matchAny(r.Env, name) && !Dangerous(name)
}

// credentials are further names that values go by which should not leak.
var credentials = []string{
	"*PASS*", "*_PWD", "*_AUTH*", "*_PAT", "*_CREDS", "*_KEY_*", "*_KEYS", "*_DSN", "*JWT*", "*BEARER*", "*COOKIE*", "*WEBHOOK*",
	"*_PROXY", "*DATABASE_URL", "*REDIS_URL", "*MONGO*_UR*", "*AMQP*_UR*", "NETRC", "KUBECONFIG",
}

// Dangerous says whether no glob lets a variable of that name through.
func Dangerous(name string) bool {
	return isDangerous(name) || matchAny(credentials, strings.ToUpper(name))
}

func isDangerous(name string) bool { return matchAny(dangerous, strings.ToUpper(name)) }

// isName reports whether a shell could set the variable. It keeps out functions
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

// match reports whether name is like glob, in which "*" stands for any bytes.
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
