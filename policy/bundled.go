package policy

import (
	"slices"
	"strings"
)

// sets are the bundled rule sets. Each call makes a copy.
var sets = []struct {
	name  string
	rules func() CommandRules
}{
	{"readonly", func() CommandRules {
		return CommandRules{Rules: []CommandRule{readFiles(), gitReads(), readTools(), versionRule()}}
	}},
	{"git-readonly", func() CommandRules { return CommandRules{Rules: []CommandRule{gitReads()}} }},
	{"build", func() CommandRules {
		return CommandRules{
			Writes: []string{"**", "/work/**", "/tmp/**"},
			Env:    slices.Clone(buildEnv),
			Rules:  append(buildRules(), readFiles(), gitReads()),
		}
	}},
}

// Sets are the names of the bundled sets.
func Sets() (names []string) {
	for _, set := range sets {
		names = append(names, set.name)
	}
	return names
}

// Bundled returns a set of rules by its name: "readonly", "git-readonly" or
// "build". Each is a copy that the caller may use or take rules from.
//
// They are about the command line only. What a repository's own settings
// make git run (core.fsmonitor, filters), where links lead and what the image
// calls `ls` is limited by the container.
func Bundled(name string) (CommandRules, bool) {
	for _, set := range sets {
		if set.name == name {
			return set.rules(), true
		}
	}
	return CommandRules{}, false
}

// readFiles are programs that only print. What some of them write to other files or
// run is excluded by their rows.
func readFiles() CommandRule {
	return CommandRule{
		Name:     "read-files",
		Decision: Allow,
		Allow:    []string{Reads},
		Reason:   "it only reads and prints",
		Commands: append(strings.Fields(freePrograms),
			"printf", "getent", "command -v", "command -V", "type", "hostname", "zcat", "bzcat", "xzcat", "gzip", "gunzip", "sort", "uniq", "shuf", "date", "file", "tree", "xxd", "rg", "sed", "awk", "find", "gofmt", "env", "cd", "xargs", "timeout",
			"exec", "hash", "jobs", "umask", "ulimit", ":", "pushd", "popd", "dirs", "shopt", "[["),
	}
}

// readTools are programs that print in some modes and do more in others, which
// their rows exclude.
func readTools() CommandRule {
	return CommandRule{
		Name:     "read-tools",
		Decision: Allow,
		Allow:    []string{Reads},
		Reason:   "it only prints",
		Commands: append(readCommandNames(), strings.Fields(`tar unzip xz bzip2 zstd zstdcat tee yq bat batcat eza exa fd fdfind ag zgrep less more
			ss lsof ip ifconfig arp route mount top dmesg sysctl stty tput lsb_release getconf iconv shfmt bc nm objdump
			dpkg dpkg-query rpm`)...),
	}
}

// versionRule allows the words with which programs print their version.
func versionRule() CommandRule {
	return CommandRule{Name: "versions", Decision: Allow, Allow: []string{Reads}, Reason: "it only prints its version", Commands: versionCommands()}
}

func gitReads() CommandRule {
	rule := CommandRule{Name: "git-reads", Decision: Allow, Allow: []string{Reads}, Reason: "it only reads the repository", Commands: []string{"git --version"}}
	for name := range gitCommands {
		rule.Commands = append(rule.Commands, "git "+name)
	}
	for name := range gitLists {
		rule.Commands = append(rule.Commands, "git "+name)
	}
	slices.Sort(rule.Commands)
	return rule
}

var buildEnv = []string{
	"CGO_ENABLED", "GOOS", "GOARCH", "GOARM", "GO111MODULE", "GOFLAGS", "GOCACHE", "GOTOOLCHAIN", "NODE_ENV", "NODE_OPTIONS", "DEBUG", "VERBOSE",
	"RUST_BACKTRACE", "RUST_LOG", "RUSTFLAGS", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "DJANGO_SETTINGS_MODULE", "CC", "CXX",
	"CFLAGS", "CXXFLAGS", "LDFLAGS", "MAKEFLAGS", "PORT", "LOG_LEVEL", "DATABASE_URL", "RAILS_ENV", "RACK_ENV", "JAVA_HOME",
}

// buildRules let the workspace's own code run, and let it change files there.
func buildRules() []CommandRule {
	return []CommandRule{
		{
			Name: "build-tools", Decision: Allow, Reason: "it builds or tests", AllowUnknown: true, Allow: []string{Runs, Writes}, Env: []string{"*", "HOME"},
			Commands: strings.Fields(`make gmake cmake ctest ninja meson bazel just task ant mvn gradle ./gradlew ./mvnw sbt npm npx pnpm yarn bun deno node go cargo
				rustc python python3 pip pip3 poetry uv pytest tox nox ruby bundle rake gem composer php phpunit mix dotnet jest vitest mocha tsc eslint
				prettier gofmt golangci-lint sh bash dash staticcheck ruff black mypy flake8 pylint isort gcc g++ cc c++ clang clang++ ld ar java javac swift`),
		},
		{
			Name: "change-files", Decision: Allow, Reason: "it changes files of the workspace",
			Commands: strings.Fields("mkdir rmdir touch cp mv ln rm tee chmod truncate mktemp gzip gunzip"),
		},
		{
			Name: "git-changes", Decision: Allow, Reason: "it changes the repository of the workspace",
			Commands: []string{"git add", "git commit", "git checkout", "git switch", "git restore", "git mv", "git rm", "git merge", "git apply", "git cherry-pick", "git init"},
			Deny:     []string{"--exec", "--upload-pack", "--receive-pack"},
		},
		{
			Name: "git-remotes", Decision: Ask, Reason: "it talks to another repository",
			Commands: []string{"git push", "git pull", "git fetch", "git clone"},
			Deny:     []string{"--exec", "--upload-pack", "--receive-pack", "-u"},
		},
	}
}
