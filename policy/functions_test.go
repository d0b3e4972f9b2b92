package policy

import "testing"

// A name is a function only while it is certainly defined: bash's unset removes it,
// and then the name refers to a program.
func TestFunctionsThatAreUnset(t *testing.T) {
	const f = "prog() { ls; }; "
	for script, want := range map[string]Decision{
		f + "prog a": Allow, f + "unset -v prog; prog a": Allow, f + "unset x; prog a": Allow, "unset prog; ls": Allow, f + "unset prog; ls": Allow, f + "prog a; (ls); { prog; }": Allow, f + "x=$(prog a)": Allow,
		f + "unset prog; prog a": Deny, f + "unset -f prog; prog a": Deny, f + "command unset prog; prog a": Deny, f + "u\\nset 'prog'; prog a": Deny, f + "\"unset\" prog; prog a": Deny, f + "unset \"$x\"; prog a": Deny, f + "unset x prog; prog a": Deny, f + "unset -v x; unset prog; prog a": Deny, f + "unset prog -v; prog a": Deny,
		f + "eval 'unset prog'; prog a": Deny, f + "eval unset prog; prog a": Deny, f + "for x in 1 2; do prog a; unset prog; done": Deny, "g() { unset prog; }; " + f + "g; prog a": Deny, f + "g() { prog a; }; g; unset prog; g": Deny, f + "trap 'unset prog' EXIT; prog a": Deny, f + "if ls; then unset prog; fi; prog a": Deny, f + "unset prog & prog a": Deny,
		"ls && prog() { ls; }; prog a": Deny, "(prog() { ls; }); prog a": Deny, "{ prog() { ls; }; }; prog a": Deny, "prog() { ls; } | cat; prog a": Deny, "prog() { ls; } & prog a": Deny, "! prog() { ls; }; prog a": Deny, "for x in; do prog() { ls; }; done; prog a": Deny, "if ls; then prog() { ls; }; fi; prog a": Deny, "case a in b) prog() { ls; };; esac; prog a": Deny, "prog a; prog() { ls; }": Deny, "g() { prog a; }; g; prog() { ls; }": Deny,
		"eval 'prog() { ls; }'; prog a": Deny, f + "sh -c 'prog a'": Deny, f + "env prog a": Deny, f + "command prog a": Deny, f + "echo | xargs prog": Deny, "linux64() { ls; }; unset linux64; linux64 touch f": Deny, "prog() { ls; } && ls; prog a": Deny, "prog() (ls) | cat; prog a": Deny, "prog() ls; prog a": Deny, "prog() (ls); prog a": Allow, "prog() { ls; } 2>&1; prog a": Allow,
	} {
		for _, shell := range []string{ShellPOSIX, ShellBash} {
			p := compile(t, CommandRules{Shell: shell, Env: []string{"x"}, Rules: []CommandRule{rule("reads", Allow, "ls|cat|echo")}})
			if v := p.Judge(script, ""); v.Decision != want {
				t.Errorf("%s: %q is %s: %s", shell, script, v.Decision, v.Reason)
			}
		}
	}
}

// TestWrappersAreSeenThrough: what a rule denies is denied behind each program
// that starts others, with its options, and behind unknown options.
func TestWrappersAreSeenThrough(t *testing.T) {
	p := compile(t, CommandRules{Default: Allow, Rules: []CommandRule{rule("no", Deny, "rm")}})
	for _, before := range wrappers {
		for _, program := range []string{"rm x", "/bin/rm x", "env rm x", "sh -c 'rm x'"} {
			if v := p.Judge(before+" "+program, ""); v.Decision != Deny {
				t.Errorf("%q is %s: %s", before+" "+program, v.Decision, v.Reason)
			}
		}
		if v := p.Judge(before+" ls", ""); v.Decision != Allow {
			t.Errorf("%q is %s: %s", before+" ls", v.Decision, v.Reason)
		}
	}
}

var wrappers = []string{
	"nohup", "nice -n 5", "ionice -c3", "timeout -s KILL 5", "timeout 5s", "stdbuf -oL", "setsid -w", "time -p", "taskset -c 0", "chrt -b 0", "choom -n 5 --", "prlimit --nofile=9", "busybox", "toybox", "busybox env", "env -i A=1", "xargs -n 1", "xargs -0 -I{}", "watch", "watch -x", "flock f",
	"linux32", "linux64", "linux64 -R", "i386", "i486", "i586", "i686 -v", "x86_64", "uname26", "setarch x86_64", "setarch -R", "setarch i686 --3gb", "linux32 --4gb", "aarch64", "arm", "armv7l",
	"sudo", "sudo -n -u x", "sudo -E", "sudo --user=x", "doas -u x", "pkexec", "pkexec --user x", "runuser -u x --", "runuser -u x", "setpriv --reuid=x", "setuidgid x", "chpst -u x", "gosu x", "su-exec x", "capsh --", "unshare -n", "unshare -Ur", "nsenter -t 1 -m", "chroot /x", "capsh --drop=all --",
	"chronic", "chronic -e", "ifne", "ifne -n", "eatmydata", "eatmydata --", "nocache", "numactl -N 0", "numactl --cpunodebind=0 --membind=0", "numactl -m 0 --", "numactl --interleave=all", "systemd-inhibit", "systemd-inhibit --what=idle", "systemd-inhibit --who x --", "systemd-run", "systemd-run --user --pipe", "systemd-run -p A=b", "systemd-cat -t x",
	"perf stat", "perf stat -r 5 -e cycles --", "perf record -g -o f", "perf trace -s", "perf stat -x, -d", "strace -f -e trace=x", "ltrace -S", "valgrind -q", "valgrind --tool=x", "catchsegv", "faketime '1 day ago'", "faketime -f '+1d'", "rr record", "heaptrack",
	"firejail", "firejail --quiet --net=none", "bwrap --ro-bind / / --", "bwrap --dev-bind / /", "proot -r /x", "fakeroot", "fakeroot --", "fakeroot -i f", "fakechroot", "pseudo", "dbus-run-session --", "dbus-launch --exit-with-session", "xvfb-run -a", "xvfb-run -s '-screen 0'", "rlwrap -a", "unbuffer -p", "torsocks", "torify", "proxychains -q", "proxychains4 -f f", "tsocks", "cpulimit -l 50 --",
	"start-stop-daemon --start --exec", "daemonize -c /x", "daemon --", "tini --", "tini -s", "dumb-init --", "dumb-init -c", "catatonit --", "s6-setuidgid x", "s6-envdir x", "envdir x", "with-contenv", "softlimit -m 5", "cgexec -g cpu:x", "aa-exec -p x", "runcon x", "sg x", "schroot -c x --", "ccache", "distcc", "gamemoderun", "trickle -d 5",
	"/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1", "ld.so --library-path /x", "/lib/ld-linux.so.2 --preload x", "/lib/x86_64-linux-gnu/ld-2.36.so", "/lib64/ld-linux-x86-64.so.2 --argv0 ls", "qemu-x86_64", "qemu-aarch64-static -L /x", "hyperfine", "parallel", "parallel -j 4 --", "mispipe", "setlock f", "lockrun -n", "timelimit -t 5", "busybox timeout 5", "busybox nice", "/bin/busybox", "/usr/bin/env", "/usr/bin/linux64", "env linux64", "linux64 env chronic", "entr", "xterm -e",
}
