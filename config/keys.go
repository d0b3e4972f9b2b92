package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"belljar/policy"
	"belljar/sandbox"
)

// key is one key of sandbox.yaml. The table of keys is the one source for the
// parser, the defaults, the environment variables and the schema.
type key struct {
	name    string // "limits.memory"
	kind    kind
	def     string // the default, as YAML
	doc     string
	command bool   // applies to a command, so profiles may override it
	host    bool   // concerns this host, so an untrusted file cannot set it
	found   bound  // what an untrusted file may set it to; nil: anything
	flag    string // of `belljar run`; empty is the name with dashes
}

// Limits are those of a command, and those that rules restrict it to.
var (
	memoryLimit = size(6<<20, "6MiB")
	cpusLimit   = number(0.01, 4096)
	pidsLimit   = integer(4, 1<<22)
	outputLimit = size(1<<10, "1KiB")
	tmpLimit    = size(64<<10, "64KiB")
	filesLimit  = integer(32, 1<<20)
)

// The values of rootfs.
const readOnly, writable = "read-only", "writable"

var keys = []key{
	{name: "version", kind: integer(1, 1), def: "1", doc: "Version of this file's format."},
	{name: "engine.kind", kind: enum(EngineAuto, EngineDocker, EngineOCI, EngineKubernetes), def: EngineAuto, host: true, doc: "What makes containers: docker, an OCI runtime without a daemon (oci), a cluster's pods (kubernetes), or docker where it answers, else oci (auto)."},
	{name: "engine.host", kind: optional(address("unix", "tcp", "ssh", "http", "https")), def: "", host: true, doc: "Address of the container engine: unix://, tcp:// or ssh://. Empty: DOCKER_HOST, the docker context, then the default socket."},
	{name: "engine.runtime", kind: optional(runtime), def: "", command: true, host: true, flag: "--runtime", doc: "OCI runtime, such as runsc, by the name that the engine has for it; for oci, crun, runc, runsc or the absolute path of one; for kubernetes, a RuntimeClass. Empty: the engine's default; for oci, crun where it is installed, else runc."},
	{name: "engine.init", kind: optional(initProgram), def: "", host: true, doc: "The static belljar program that starts the commands in each container, as an absolute path; none: the engine starts them. Empty: this program. Where it cannot be used, docker starts them: see belljar doctor."},
	{name: "engine.limits", kind: enum(LimitsRequired, LimitsBestEffort), def: LimitsRequired, host: true, doc: "For oci, where belljar does not run as root and may make no control groups: run nothing (required), or run commands without limits.memory, limits.cpus and limits.pids, and without evidence of them, which each result says in container.limits (best-effort)."},
	{name: "engine.kubernetes.kubeconfig", kind: optional(absoluteFile), def: "", host: true, doc: "File that says how the cluster is reached. Empty: KUBECONFIG, ~/.kube/config, or, in a pod, its service account."},
	{name: "engine.kubernetes.context", kind: optional(word), def: "", host: true, doc: "Context of that file. Empty: its current one."},
	{name: "engine.kubernetes.namespace", kind: optional(namespace), def: "", host: true, doc: "Namespace of the pods. Empty: that of the context, or default."},
	{name: "engine.kubernetes.image", kind: optional(reference), def: "", host: true, doc: "Image of this version of belljar, with the program at /belljar, as deploy/Dockerfile builds it. Each pod copies its init from it. Needed for kubernetes."},
	{name: "engine.kubernetes.pull", kind: enum("always", "missing", "never"), def: "missing", host: true, doc: "When a node pulls that image."},
	{name: "engine.kubernetes.start_timeout", kind: durationTo(second, time.Hour, "1h"), def: "2m", host: true, doc: "How long a pod may take to run, with the pull of its image."},
	{name: "engine.kubernetes.node_selector", kind: pairs, def: "[]", host: true, doc: "Labels of the nodes that may run pods: KEY=VALUE."},
	{name: "engine.kubernetes.tolerations", kind: taints, def: "[]", host: true, doc: "Taints that the pods tolerate, as kubectl writes them: KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT."},
	{name: "engine.kubernetes.labels", kind: pairs, def: "[]", host: true, doc: "Labels of the pods, besides belljar's own: KEY=VALUE."},
	{name: "engine.kubernetes.priority_class", kind: optional(objectName), def: "", host: true, doc: "PriorityClass of the pods. Empty: the cluster's default."},
	{name: "engine.kubernetes.pull_secrets", kind: objectNames, def: "[]", host: true, doc: "Secrets of the namespace that nodes pull images with."},
	{name: "engine.kubernetes.seccomp", kind: optional(profileFile), def: "", host: true, doc: "Seccomp profile of the pods, a file in the kubelets' seccomp directory. Empty: the runtime's default."},
	{name: "engine.kubernetes.user_namespaces", kind: boolean, def: "false", host: true, doc: "Give each pod a user namespace (hostUsers: false). The nodes' runtime must know them: containerd 2 and newer do."},
	{name: "image", kind: reference, def: "belljar/base", command: true, doc: "Image that commands run in."},
	{name: "pull", kind: enum("always", "missing", "never"), def: "missing", command: true, doc: "When the image is pulled from its registry."},
	{name: "timeout", kind: duration(second), def: "10m", command: true, doc: "Time limit for the whole command; at least 1s, at most max_timeout."},
	{name: "idle_timeout", kind: orZero(duration(second), sandbox.NoIdleTimeout), def: "3m", command: true, doc: "Time limit without output; 0 turns it off."},
	{name: "idle.stdin", kind: boolean, def: "false", command: true, flag: "--idle-stdin", doc: "For idle_timeout, stdin that the command is sent counts as output does."},
	{name: "idle.on", kind: enum(slices.Sorted(maps.Keys(idleOn))...), def: "output", command: true, flag: "--idle-on", doc: "For idle_timeout, what counts as activity: output, the CPU time that the command uses (+cpu), and what it reads and writes on disks and networks (+io). In a session, CPU time and I/O are those of all that runs in its container."},
	{name: "max_timeout", kind: duration(second), def: "1h", command: true, found: upTo(24*time.Hour, "24h"), doc: "The longest timeout and idle_timeout that a command can ask for."},
	{name: "on_timeout", kind: enum("container", "command"), def: "container", command: true, doc: "What a timeout ends in a session: its container, or only the command."},
	{name: "stop_grace", kind: orEmpty(orZero(durationTo(10*time.Millisecond, sandbox.MaxStopGrace, "1m"), sandbox.NoStopGrace), time.Duration(0)), def: "", command: true, doc: "Before SIGKILL, a command that a timeout, its output limit or its caller ends gets SIGTERM and this much time; at most 1m, 0: none. Empty: 2s in a session with on_timeout: command, else 0."},
	{name: "on_output_limit", kind: enum("truncate", "end"), def: "truncate", command: true, doc: "Beyond limits.output: keep the beginning and the end of the output, or end the command."},
	{name: "streams", kind: optional(enum("full", "view", "none")), def: "", command: true, doc: "What of stdout and stderr is in the result: both (full), only their views (view), or neither (none). Empty: view for a command with a view, otherwise full."},
	{name: "encoding", kind: enum("exact", "replace"), def: "exact", command: true, doc: "Output that is not valid UTF-8, in results and events: base64 of the bytes (exact), or text in which U+FFFD replaces them (replace)."},
	{name: "workdir", kind: workdir, def: "/work", command: true, doc: "Working directory in the container."},
	{name: "shell", kind: enum(sandbox.ShellSh, sandbox.ShellBash, sandbox.ShellAuto), def: sandbox.ShellSh, command: true, doc: "The shell that runs scripts: sh, bash, or auto (bash if the image has it, else sh)."},
	{name: "tmpfs", kind: tmpfs, def: "[]", command: true, doc: "More writable directories in memory (tmpfs), such as /var/tmp; limits.tmp is the size of each."},
	{name: "user", kind: user, def: "65534:65534", command: true, found: notRoot, doc: "User that commands run as, never root but in a profile: UID:GID in numbers, or names of the image, as NAME or NAME:GROUP. UID alone: the GID is the same number. NAME alone: the GID of that account. caller: who runs belljar, but never root. root, in a profile only: a user without rights outside the container, where the engine can contain it; see limits.disk."},
	{name: "rootfs", kind: enum(readOnly, writable), def: readOnly, command: true, found: readOnlyRoot, doc: "The root file system: read-only, or, in a profile only, writable up to limits.disk. What is written is in memory, and goes with the container."},
	{name: "env.set", kind: variables, def: "[LANG=C.UTF-8]", command: true, doc: "Variables for every command: NAME=value."},
	{name: "env.allow", kind: variableGlobs, def: `[CI, "LC_*"]`, command: true, found: harmlessNames, doc: "Variables of the caller that commands get, by name or glob. Globs do not match dangerous ones, such as *_TOKEN: write their full names."},
	{name: "secrets", kind: secrets, def: "[]", command: true, host: true, doc: "Values that policy rules can grant to commands as variables: from belljar's environment, a file or a program. They are masked in all output. Not allowed in a file found in the working directory."},
	{name: "mounts.allow", kind: mounts, def: "[{source: ./, target: /work, mode: ro}]", command: true, found: belowItself, doc: "What commands can mount: each a source or, on Kubernetes, a volume. A relative source is relative to this file. Empty target: any. mode: ro or rw."},
	{name: "limits.memory", kind: memoryLimit, def: "512MiB", command: true, found: upTo(int64(8<<30), "8GiB"), doc: "Limit on memory and swap together."},
	{name: "limits.cpus", kind: cpusLimit, def: "1", command: true, found: upTo(8.0, "8"), doc: "Limit on CPUs, such as 0.5."},
	{name: "limits.pids", kind: pidsLimit, def: "128", command: true, found: upTo(int64(4096), "4096"), flag: "--pids-limit", doc: "Limit on processes and threads, including the container's own two."},
	{name: "limits.output", kind: outputLimit, def: "16MiB", command: true, found: upTo(int64(256<<20), "256MiB"), flag: "--max-output", doc: "How much output is kept, stdout and stderr together."},
	{name: "limits.result", kind: sizeTo(1<<10, "1KiB", 1<<30, "1GiB"), def: "16MiB", command: true, found: upTo(int64(256<<20), "256MiB"), flag: "--max-result", doc: "How much of the kept output is in a result: half from the beginning, half from the end. The result has no more than limits.output."},
	{name: "limits.tmp", kind: tmpLimit, def: "64MiB", command: true, found: upTo(int64(2<<30), "2GiB"), doc: "Size of each writable directory in memory: /tmp, the working directory, /dev/shm and those of tmpfs."},
	{name: "limits.files", kind: filesLimit, def: "1024", command: true, found: upTo(int64(65536), "65536"), doc: "Limit on open files per process."},
	{name: "limits.disk", kind: size(1<<20, "1MiB"), def: "256MiB", command: true, found: upTo(int64(2<<30), "2GiB"), doc: "With rootfs writable, how much can be written to the root file system. It counts as limits.memory does."},
	{name: "view.mode", kind: enum("none", "separate", "merged"), def: "none", command: true, flag: "--view", doc: "Views of the output in the result, for people and models: none, one of each stream (separate), or one of both in order of arrival (merged)."},
	{name: "view.bytes", kind: sizeTo(256, "256B", 64<<20, "64MiB"), def: "32KiB", command: true, flag: "--view-bytes", doc: "Limit on the text of a view: half for the beginning, half for the end."},
	{name: "view.lines", kind: integer(1, 1e6), def: "1000", command: true, flag: "--view-lines", doc: "Limit on the lines of a view: half for the beginning, half for the end."},
	{name: "view.line_chars", kind: integer(16, 1e6), def: "2000", command: true, flag: "--view-line-chars", doc: "Limit on the characters of one line of a view: half for the beginning, half for the end."},
	{name: "view.charset", kind: optional(charset), def: "", command: true, doc: "Charset of the output, by its IANA name. Empty: detect it."},
	{name: "view.every", kind: durationTo(100*time.Millisecond, time.Hour, "1h"), def: "1s", command: true, flag: "--live-every", doc: "Time between two live views of a running command's output."},
	{name: "view.scrollback", kind: integer(1, 300000), def: "1000", command: true, flag: "--view-scrollback", doc: "How many lines that scrolled off a terminal's top are in the result's screen."},
	{name: "view.scrollback_bytes", kind: sizeTo(1<<10, "1KiB", 256<<20, "256MiB"), def: "256KiB", command: true, flag: "--view-scrollback-bytes", doc: "Limit on the text of these lines; limits.result is another."},
	{name: "summarize.command", kind: program, def: "[]", command: true, host: true, doc: "Program on this host, with its arguments, that reads long output on stdin and prints a summary on stdout. It runs in /. Empty: none. Not allowed in a file found in the working directory."},
	{name: "summarize.over", kind: size(1<<10, "1KiB"), def: "32KiB", command: true, doc: "Summarize output that is longer than this."},
	{name: "summarize.replace", kind: boolean, def: "false", command: true, doc: "With streams view, the summary replaces the views in the result. Nothing changes in what is kept."},
	{name: "summarize.timeout", kind: durationTo(second, 10*time.Minute, "10m"), def: "10s", command: true, doc: "Time limit for the program; the result waits for it."},
	{name: "network", kind: network, def: "none", command: true, found: noNetwork, doc: "none, or a network of the engine; never host."},
	{name: "max_running", kind: integer(1, 10000), def: "32", host: true, doc: "How many commands run at the same time; more commands wait."},
	{name: "queue.length", kind: integer(0, 100000), def: "256", host: true, doc: "How many commands can wait, for max_running or in their session; more are refused as busy."},
	{name: "queue.wait", kind: duration(second), def: "1m", host: true, doc: "How long a command waits before it is refused as busy."},
	{name: "pool.min", kind: integer(0, 1000), def: "2", command: true, host: true, doc: "How many containers the pool keeps ready. The default profile's pool starts at once, those of other profiles with their first command."},
	{name: "pool.max", kind: integer(0, 1000), def: "8", command: true, host: true, doc: "How many containers the pool keeps ready if commands use them up quickly; 0 turns the pool off."},
	{name: "pool.max_age", kind: duration(second), def: "10m", command: true, host: true, doc: "A container in the pool is replaced when it is older than this."},
	{name: "session.idle", kind: duration(second), def: "30m", command: true, found: upTo(24*time.Hour, "24h"), doc: "A session ends after this long without a command."},
	{name: "session.max", kind: duration(second), def: "8h", command: true, found: upTo(24*time.Hour, "24h"), doc: "A session ends after this long in any case."},
	{name: "spool.total", kind: sizeTo(1<<20, "1MiB", 16<<40, "16TiB"), def: "1GiB", host: true, doc: "How much output is kept on disk, of all commands together; the oldest is removed first."},
	{name: "spool.age", kind: orZero(durationTo(second, 720*time.Hour, "720h"), 0), def: "1h", host: true, doc: "How long output is kept after its command ends; 0: not at all."},
	{name: "spool.on_error", kind: enum("continue", "end"), def: "continue", doc: "If output cannot be stored, as on a full disk: the command continues, or is ended."},
	{name: "audit.enabled", kind: boolean, def: "true", host: true, doc: "Record every decision about a command, and how each command ends. Like all of audit, not allowed in a file found in the working directory."},
	{name: "audit.file", kind: optional(absoluteFile), def: "", host: true, doc: "The audit log: an absolute path, in a directory of its own, which is never mounted. Empty: audit/audit.jsonl in belljar's state directory."},
	{name: "audit.script", kind: boolean, def: "false", host: true, doc: "Record the text of scripts, not only their SHA-256."},
	{name: "audit.max_size", kind: sizeTo(64<<10, "64KiB", 1<<40, "1TiB"), def: "64MiB", host: true, doc: "The audit log is rotated before it is larger than this."},
	{name: "audit.keep", kind: integer(1, 10000), def: "8", host: true, doc: "How many rotated files are kept."},
	{name: "audit.on_error", kind: enum("refuse", "continue"), def: "refuse", host: true, doc: "If a command cannot be recorded: refuse it, or run it with a notice (continue)."},
	{name: "policy.default", kind: enum(decisions...), def: "allow", command: true, doc: "The decision about a command that no rule matches. With allow, rules that deny are advice only."},
	{name: "policy.set", kind: optional(enum(policy.Sets()...)), def: "", command: true, doc: "Bundled rules that apply after policy.rules. Empty: none."},
	{name: "policy.shell", kind: optional(enum(policy.ShellPOSIX, policy.ShellBash)), def: "", command: true, doc: "The language in which scripts are judged. Empty: that of shell. posix: any POSIX shell; syntax that shells read differently is denied. bash: as bash reads it; needs shell: bash."},
	{name: "policy.rules", kind: commandRules, def: "[]", command: true, doc: "Rules about commands: the first that matches decides. The strictest decision counts for the whole script."},
	{name: "policy.ask_timeout", kind: duration(second), def: "5m", command: true, doc: "How long a person has to answer a question; after that, the command is denied."},
	{name: "serve.listen", kind: address("unix", "tcp"), def: "unix:///run/belljar/belljar.sock", host: true, doc: "Where `belljar serve` listens: unix:///PATH, for this user only, or tcp://HOST:PORT, which needs serve.token_file or serve.client_ca, and TLS unless HOST is this machine's loopback. Sockets that systemd passes replace it. Like all of serve, not allowed in a file found in the working directory."},
	{name: "serve.token_file", kind: optional(file), def: "", host: true, doc: "File of the callers' tokens, which no other user can read. It is read again when it changes. Empty: only the unix socket without a token."},
	{name: "serve.tls_cert", kind: optional(file), def: "", host: true, doc: "The server's certificate for TLS, with its chain, in PEM. It is read again when it changes. Empty: no TLS."},
	{name: "serve.tls_key", kind: optional(file), def: "", host: true, doc: "The key of serve.tls_cert in PEM, which no other user can read."},
	{name: "serve.client_ca", kind: optional(file), def: "", host: true, doc: "Certificates in PEM; every client must have one that they signed (mTLS). Empty: clients need none."},
	{name: "serve.hosts", kind: hostNames, def: "[]", host: true, doc: "Names and addresses that clients use for this server, without a port. The machine's own are known: localhost, its loopback addresses and the address that a client connected to."},
	{name: "serve.origins", kind: origins, def: "[]", host: true, doc: "Origins, such as https://ci.example.com, whose web pages may call this server."},
	{name: "serve.insecure", kind: boolean, def: "false", host: true, doc: "Allow other machines to connect without TLS. Tokens and output are then readable in the network."},
	{name: "serve.max_connections", kind: integer(1, 1e6), def: "2048", host: true, doc: "How many connections can be open; a new one replaces the one that is idle for longest."},
	{name: "serve.max_requests", kind: integer(1, 1e6), def: "1024", host: true, doc: "How many requests are answered at the same time, for one caller at most 3/4 of them; more are refused with status 503."},
	{name: "serve.max_body", kind: sizeTo(1<<10, "1KiB", 1<<30, "1GiB"), def: "64MiB", host: true, doc: "Limit on the body of a request. Files have limits of their own."},
	{name: "serve.drain_timeout", kind: orZero(durationTo(second, time.Hour, "1h"), 0), def: "30s", host: true, doc: "How long the server waits for running commands when it is stopped, before it ends them; 0: not at all."},
	{name: "serve.replicas.enabled", kind: boolean, def: "false", host: true, doc: "Several sidecars of a cluster are one for callers: each finds the sessions, executions and idempotency keys of the others. It takes engine.kind kubernetes, a serve.listen of tcp, and serve.token_file."},
	{name: "serve.replicas.address", kind: optional(ipAddress), def: "", host: true, doc: "The IP address at which the others reach this one, at the port of serve.listen; each has its own. Empty: the one that serve.listen names, or that this machine has towards the API server."},
	{name: "serve.replicas.namespace", kind: optional(namespace), def: "", host: true, doc: "Namespace of the Leases by which replicas find each other. They believe what these say: only they should be able to write there. Empty: that of the pods."},
	{name: "serve.replicas.ca", kind: optional(file), def: "", host: true, doc: "Certificates in PEM that sign those of the other replicas. Empty: those of serve.tls_cert itself."},
}

// idleOn are the values of idle.on.
var idleOn = map[string]sandbox.Idle{"output": {}, "output+cpu": {CPU: true}, "output+cpu+io": {CPU: true, IO: true}}

// profilesKey holds the profiles. It is not in the table: its own keys are
// the command's keys, once for each profile.
const profilesKey = "profiles"

func commandKeys() []key {
	return slices.DeleteFunc(slices.Clone(keys), func(k key) bool { return !k.command })
}

func findKey(table []key, name string) (key, bool) {
	i := slices.IndexFunc(table, func(k key) bool { return k.name == name })
	if i < 0 {
		return key{}, false
	}
	return table[i], true
}

// isGroup reports whether keys lie below name, as limits.memory below limits.
func isGroup(table []key, name string) bool {
	return slices.ContainsFunc(table, func(k key) bool { return strings.HasPrefix(k.name, name+".") })
}

// env is the variable that sets the key. The version has none: it describes the
// file, and a build script may well set BELLJAR_VERSION for itself.
func (k key) env() string {
	if k.name == "version" {
		return ""
	}
	return "BELLJAR_" + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// flagName is the flag that sets the key, as messages name it.
func (k key) flagName() string {
	if k.flag != "" {
		return k.flag
	}
	return "--" + strings.ReplaceAll(k.name[strings.LastIndex(k.name, ".")+1:], "_", "-")
}
