package policy

import (
	"slices"
	"strings"
	"testing"
)

// Names for which each dangerous pattern exists, one row a pattern: no glob lets
// them through, in upper or in lower case, but a rule with the full name does.
var dangerousNames = map[string]string{
	"PATH": "PATH", "LD_*": "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT LD_", "GLIBC_TUNABLES": "GLIBC_TUNABLES", "GCONV_PATH": "GCONV_PATH",
	"ENV": "ENV", "BASH_ENV": "BASH_ENV", "IFS": "IFS", "PROMPT_COMMAND": "PROMPT_COMMAND", "PS4": "PS4", "SHELLOPTS": "SHELLOPTS", "BASHOPTS": "BASHOPTS", "CDPATH": "CDPATH",
	"HOME": "HOME", "XDG_CONFIG_*": "XDG_CONFIG_HOME XDG_CONFIG_DIRS",
	"PYTHON*": "PYTHONPATH PYTHONSTARTUP", "PERL*": "PERL5LIB PERL5OPT", "RUBY*": "RUBYOPT", "NODE_*": "NODE_OPTIONS", "LUA_*": "LUA_INIT", "CLASSPATH": "CLASSPATH", "*JAVA*OPTIONS": "_JAVA_OPTIONS JAVA_TOOL_OPTIONS",
	"GIT_*": "GIT_SSH_COMMAND GIT_DIR GIT_EXTERNAL_DIFF", "DOCKER_*": "DOCKER_HOST DOCKER_AUTH_CONFIG", "SSH_*": "SSH_AUTH_SOCK SSH_ASKPASS", "BELLJAR_*": "BELLJAR_CONFIG",
	"AWS_*": "AWS_PROFILE AWS_REGION", "*TOKEN*": "TOKEN GH_TOKEN NPM_TOKENS", "*KEY": "API_KEY KEY STRIPE_KEY", "*SECRET*": "SECRET CLIENT_SECRET SECRET_BASE",
	"*PASSWORD*": "DB_PASSWORD PASSWORD_FILE", "*PASSWD*": "PASSWD MYSQL_PASSWD", "*CREDENTIAL*": "GOOGLE_APPLICATION_CREDENTIALS",
}

func TestDangerousVariables(t *testing.T) {
	if len(dangerousNames) != len(dangerous) {
		t.Errorf("%d rows for %d patterns", len(dangerousNames), len(dangerous))
	}
	for pattern, row := range dangerousNames {
		if !slices.Contains(dangerous, pattern) {
			t.Errorf("%s is no longer in the list", pattern)
		}
		for _, upper := range strings.Fields(row) {
			for _, name := range []string{upper, strings.ToLower(upper), upper[:1] + strings.ToLower(upper[1:])} {
				globs := Rules{Env: []string{"*", name[:1] + "*", "*" + name[1:], name + "*"}}
				if globs.AllowEnv(name) {
					t.Errorf("%s: a glob lets %s through", pattern, name)
				}
				if !(Rules{Env: []string{name}}).AllowEnv(name) {
					t.Errorf("%s is denied, though it is named", name)
				}
			}
			if (Rules{Env: []string{strings.ToLower(upper)}}).AllowEnv(upper) {
				t.Errorf("%s passes by its name in lower case", upper)
			}
		}
	}
	for _, name := range []string{"PATHS", "MYPATH", "ENVIRONMENT", "KEYBOARD", "LDFLAGS", "GITHUB_SHA", "AWSOME", "SSHD", "EDITOR", "CI"} {
		if !(Rules{Env: []string{"*"}}).AllowEnv(name) {
			t.Errorf("%s is taken for a dangerous one", name)
		}
	}
}

// Scripts cannot set them for allowed commands either (S2 of the adversarial
// suite), unless the rules name them.
func TestScriptsDoNotSetDangerousVariables(t *testing.T) {
	rules := CommandRules{Env: []string{"*"}, Rules: []CommandRule{rule("reads", Allow, "ls|git log|env|export")}}
	p := compile(t, rules)
	for _, row := range dangerousNames {
		for _, name := range strings.Fields(row) {
			rules.Env = []string{name}
			named := compile(t, rules)
			for _, script := range []string{"@=x ls", "env @=x ls", "export @=x; ls", "@=x; ls", "@=x sh -c ls", "read @; ls", "for @ in x; do ls; done", ": ${@:=x}; ls"} {
				script = strings.ReplaceAll(script, "@", name)
				if v := p.Judge(script, ""); v.Decision != Deny {
					t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
				}
				if v := named.Judge(script, ""); v.Decision != Allow {
					t.Errorf("%q is %s, though %s is named: %s", script, v.Decision, name, v.Reason)
				}
			}
		}
	}
}

// A caller that sets these influences which code gets a secret, or where it is sent.
func TestSteers(t *testing.T) {
	for name, want := range map[string]bool{
		"PATH": true, "LD_PRELOAD": true, "GIT_SSH_COMMAND": true, "https_proxy": true, "ALL_PROXY": true, "SSL_CERT_FILE": true, "CURL_HOME": true, "NODE_OPTIONS": true, "IFS": true,
		"PIP_PYTHON": true, "OPENSSL_CONF": true, "APT_CONFIG": true, "IP_LIB_DIR": true, "PKG_CONFIG": true, "NPM_CONFIG_SCRIPT_SHELL": true, "npm_config_script_shell": true, "BAT_OPTS": true, "RPM_CONFIGDIR": true,
		"NPM_CONFIG_REGISTRY": true, "NPM_CONFIG_USERCONFIG": true, "NPM_CONFIG_CACHE": false, "BAT_THEME": false, "PIP_INDEX_URL": false, "PKG_CONFIG_PATH": false, "DEBIAN_FRONTEND": false,
		"STAGE": false, "API_TOKEN": false, "AWS_REGION": false, "LANG": false, "PATHS": false,
	} {
		if got := (Rules{}).Steers(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What makes a program run other code is not set by the way; what only looks like it may be.
func TestVariablesOfPrograms(t *testing.T) {
	p := compile(t, CommandRules{Default: Allow, Rules: []CommandRule{rule("no-push", Deny, "git push")}})
	for script, want := range map[string]Decision{
		"NPM_CONFIG_CACHE=/tmp/npm npm ci": Allow, "OPENSSL_CONF=/dev/null phantomjs x.js": Allow, "BAT_THEME=ansi bat f": Allow, "PIP_NO_CACHE_DIR=1 pip install x": Allow,
		"OPENSSL_CONF=x.cnf openssl version": Deny, "PIP_PYTHON=./x pip list": Deny, "APT_CONFIG=x apt search y": Deny, "env IP_LIB_DIR=. ip -d addr": Deny, "export PKG_CONFIG=./x; go vet": Deny,
	} {
		if v := p.Judge(script, ""); v.Decision != want {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
}
