package e2e

import (
	"regexp"
	"slices"
	"testing"
)

// row is one attack, and the expected outcome: a script and how it ends, or a
// test function. Its group is the party at risk (gVisor's taxonomy), or
// Truth, where the harm would be a false result.
type row struct {
	name, group string
	flags       []string
	script      string
	code        int    // belljar's exit status
	cause       string // of the result; "exited" where it is empty
	out         string // all of stdout and stderr, a regular expression
	do          func(*testing.T)
}

// TestAdversarial runs every row; `make adversarial` sums it up by group.
func TestAdversarial(t *testing.T) {
	needEachEngine(t)
	t.Parallel()
	for _, r := range slices.Concat(faults, escapes, resources, outputs, times, environments, imageRows, roots, inits) {
		t.Run(r.name, func(t *testing.T) {
			t.Attr("group", r.group)
			wantPods(t)
			t.Parallel()
			if r.do != nil {
				r.do(t)
				return
			}
			a := ask(t, append(slices.Clone(r.flags), r.script)...)
			a.ended(t, r.code, r.cause)
			a.says(t, r.out)
		})
	}
}

func (a answer) ended(t *testing.T, code int, cause string) {
	t.Helper()
	if cause == "" {
		cause = "exited"
	}
	if a.code != code || a.Cause != cause {
		t.Errorf("exit status %d for %q, want %d for %q: %s", a.code, a.Cause, code, cause, a.json)
	}
}

func (a answer) says(t *testing.T, want string) {
	t.Helper()
	if got := a.Stdout + a.Stderr; !regexp.MustCompile(`^(?s:` + want + `)$`).MatchString(got) {
		t.Errorf("says %.1000q, wants %q", got, want)
	}
}

var escapes = []row{
	{name: "E1", group: "Escape", script: `grep -E '^Cap|NoNew|Secc.*:' /proc/self/status | tr -d '\t'`,
		out: `Cap...:0{16}\n(Cap...:0{16}\n){4}NoNewPrivs:1\nSeccomp:2\n(Seccomp_filters:\d+\n)?`},
	{name: "E2", group: "Escape", script: "mount -t tmpfs x /tmp", code: 1, out: ".*(not permitted|denied|must be superuser).*"},
	{name: "E3", group: "Escape", script: "unshare -Ur id", code: 1, out: ".*not permitted.*"},
	// sysrq's harmless h, because a successful test would have its effect.
	{name: "E4", group: "Escape", script: "for f in sys/kernel/core_pattern sys/kernel/modprobe sysrq-trigger; do (echo h >/proc/$f) 2>/dev/null && echo WROTE; done; true"},
	{name: "E5", group: "Escape", script: "for f in $(find /sys/fs/cgroup -name release_agent -o -name cgroup.procs -o -name devices.allow); do (echo x >$f) 2>/dev/null && echo WROTE; done; true"},
	{name: "E6", group: "HostLeak", script: "cat /proc/kcore /proc/keys 2>/dev/null; ls -A /sys/firmware"},
	{name: "E7", group: "Escape", do: engineSocketIsNotMounted},
	{name: "E8", group: "HostLeak", do: hostPathsAreNotMounted},
	{name: "E9", group: "Escape", do: nothingPrivileged},
	{name: "E11", group: "Lateral", do: nothingShared},
	{name: "E12", group: "Escape", do: noLeakedDescriptor},
	{name: "E13", group: "Escape", do: probeRefused},
	{name: "E14", group: "Escape", do: noRootOwnedFile},
	{name: "E15", group: "Escape", script: "for d in /work /tmp /dev /dev/shm; do mknod $d/d b 8 0; done", code: 1, out: "(.*(not permitted|Read-only|denied)[^\n]*\n){4}"},
	{name: "E16", group: "Exfil", do: nothingReached},
	{name: "E17", group: "HostLeak", do: ownProcessesOnly},
	{name: "E19", group: "Escape", do: fileCapabilities},
}

var resources = []row{
	{name: "R1", group: "HostDoS", do: forkBomb},
	{name: "R2", group: "HostDoS", flags: []string{"--memory", "64MiB"}, script: "tail /dev/zero", code: 137, cause: "oom_killed"},
	{name: "R3", group: "SelfDoS", do: childOutOfMemory},
	{name: "R4", group: "HostDoS", script: "dd if=/dev/zero of=/x", code: 1, out: ".*Read-only file system.*"},
	{name: "R5", group: "HostDoS", do: fullTmp},
	{name: "R6", group: "HostDoS", do: manyFiles},
	{name: "R7", group: "HostDoS", do: fullWorkspace},
	{name: "R8", group: "HostDoS", script: "dd if=/dev/zero of=/dev/shm/f bs=1M", code: 1, cause: "disk_full", out: ".*No space left.*"},
	{name: "R9", group: "SelfDoS", do: outOfFiles},
	{name: "R10", group: "SelfDoS", do: zombies},
	{name: "R11", group: "PeerDoS", do: busyLoops},
	{name: "R12", group: "HostDoS", do: noCoreNoHugeFile},
	{name: "R13", group: "HostDoS", do: noEngineLog},
	{name: "R14", group: "PeerDoS", do: crowd},
	{name: "R15", group: "PeerDoS", do: allTerminals},
	{name: "R16", group: "Truth", do: siblingsProcesses},
}

var outputs = []row{
	{name: "O1", group: "HostDoS", do: endlessOutput},
	{name: "O2", group: "HostDoS", do: endlessLine},
	{name: "O3", group: "Truth", do: exactBytes},
	{name: "O4", group: "Truth", do: terminalEscapes},
	{name: "O6", group: "Truth", do: everyMarker},
	{name: "O7", group: "Truth", do: bothStreamsWhole},
	{name: "O8", group: "Truth", script: "exec >&- 2>&-; sleep 2; exit 9", code: 9},
	{name: "O9", group: "Truth", flags: []string{"--timeout", "4s"}, script: "printf partial; sleep 100", code: 124, cause: "wall_timeout", out: "partial"},
	{name: "O10", group: "HostDoS", do: readerStalls},
	{name: "O11", group: "SelfDoS", flags: []string{"--idle-timeout", "10s", "--timeout", "12s"}, script: "while :; do printf x; sleep 0.5; done", code: 124, cause: "wall_timeout", out: "x+"},
	{name: "O12", group: "Truth", do: shortLines},
}

var times = []row{
	{name: "T1", group: "Truth", flags: []string{"--idle-timeout", "1s"}, script: "sleep 1000", code: 124, cause: "idle_timeout"},
	{name: "T2", group: "SelfDoS", flags: []string{"--timeout", "1s"}, script: `trap "" TERM INT HUP; sleep 1000`, code: 124, cause: "wall_timeout"},
	{name: "T3", group: "HostDoS", do: detachedDies},
	{name: "T4", group: "HostDoS", do: backgroundDies},
	{name: "T5", group: "Truth", script: "sleep 99 & echo hi", out: "hi\n"},
	{name: "T6", group: "Truth", script: "cat"},
	{name: "T7", group: "SelfDoS", flags: []string{"--timeout", "1s"}, script: "kill -STOP $$", code: 124, cause: "wall_timeout"},
	{name: "T8", group: "Truth", script: "kill -9 $$", code: 137, cause: "signaled"},
	{name: "T9", group: "Truth", do: statusesVerbatim},
	{name: "T11", group: "HostDoS", do: clientGone},
	{name: "T12", group: "SelfDoS", do: pausedIsKilled},
}

var environments = []row{
	{name: "S1", group: "HostLeak", do: environmentIsListed},
	{name: "S2", group: "Escape", do: dangerousVariables},
	{name: "S3", group: "Truth", do: exactValues},
	{name: "S4", group: "Escape", do: readOnlyThroughout},
	{name: "S5", group: "Escape", do: missingSource},
	{name: "S8", group: "HostLeak", do: secretStaysInside},
	{name: "S8b", group: "HostLeak", do: grantedSecretStaysInside},
	{name: "S9", group: "Escape", do: dotenvIsNotRead},
	{name: "S10", group: "Truth", do: mixedCaseNames},
	{name: "S11", group: "Exfil", do: secretIsGivenByItsRule},
}

var imageRows = []row{
	{name: "I1", group: "Truth", do: pinnedImage},
	{name: "I2", group: "Escape", do: imageConfigOverridden},
	{name: "I3", group: "HostDoS", do: imageVolume},
	{name: "I4", group: "Escape", do: setuidPrograms},
	{name: "I5", group: "Truth", do: imageWithoutShell},
	{name: "I7", group: "Escape", do: importTraversal},
}

var faults = []row{
	{name: "F1", group: "Truth", do: engineKilled},
	{name: "F3", group: "Truth", do: engineStopped},
	{name: "F3-ended", group: "Truth", do: endedUnheard},
	{name: "F4-ended", group: "Truth", do: endedUntold},
	{name: "F3-resumed", group: "Truth", do: enginePaused},
	{name: "F4", group: "Truth", do: shimKilled},
	{name: "F4-stopped", group: "Truth", do: partsStopped},
	{name: "F7", group: "Truth", do: imageAbsent},
	{name: "F8", group: "Truth", do: badShell},
	{name: "F10", group: "Truth", do: endedFromOutside},
	{name: "F11", group: "Truth", do: streamCut},
	{name: "F-down", group: "Truth", do: engineDown},
	{name: "F-permission", group: "Truth", do: engineForbidden},
	{name: "F-groups", group: "Truth", do: groupsReadOnly},
	{name: "F-version", group: "Truth", do: engineVersions},
}
