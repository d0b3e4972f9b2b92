package policy

import (
	"path"
	"strings"
)

// starters are programs that start what follows their options. The options are not
// known here: if there are any, each word after them may be the program.
// The keys are the number of operands before it.
var starters = map[int]string{
	0: `linux32 linux64 uname26 i386 i486 i586 i686 athlon x86_64 aarch64 arm armv6l armv7l armv8l ppc ppc32 ppc64 ppc64le s390 s390x sparc sparc32 sparc64 mips mips64 parisc ia64 alpha riscv64
		pkexec chronic ifne eatmydata nocache numactl systemd-inhibit systemd-run systemd-cat systemd-nspawn firejail bwrap proot fakeroot fakechroot fakeroot-ng pseudo
		dbus-run-session dbus-launch xvfb-run rlwrap tsocks torify start-stop-daemon daemon daemonize tini tini-static dumb-init catatonit
		cgexec aa-exec schroot dchroot ccache sccache distcc icecc gamemoderun optirun primusrun mangohud trickle lockrun timelimit entr watchexec xterm
		heaptrack uftrace gdbserver execlineb s6-softlimit s6-applyuidgid with-contenv dotenv direnv coverage wine wine64 box64 box86 bear scan-build
		gtime gtimeout gnice gnohup gstdbuf genv gxargs aws-vault chamber doppler infisical sshpass autossh cronic dtach abduco busybox-extras ssh-agent cttyhack openvt`,
	1: "perf rr envdir envuidgid setlock s6-setuidgid s6-envdir s6-envuidgid s6-setlock runcon sg machinectl pidproxy",
}

// lineStarters run each of their operands in a shell.
const lineStarters = "hyperfine mispipe pee concurrently"

func init() {
	for skip, names := range starters {
		for _, name := range strings.Fields(names) {
			programs[name] = func(c *call) { c.runLater(skip, c.words[1:]) }
		}
	}
	for _, name := range strings.Fields(lineStarters) {
		programs[name] = func(c *call) {
			c.unknown("which of its words "+c.words[0].text+" runs", c.words[0])
			c.runAny(c.words[1:])
		}
	}
}

// programRow is the row of a program: by its name, or by its family of names.
func programRow(name string) func(*call) {
	base := path.Base(name)
	switch {
	case programs[name] != nil:
		return programs[name]
	case strings.HasPrefix(base, "ld") && strings.Contains(base, ".so"), // ld-linux-x86-64.so.2
		strings.HasPrefix(base, "qemu-") && programs[strings.TrimSuffix(base[len("qemu-"):], "-static")] != nil: // qemu-arm
		return func(c *call) { c.runLater(0, c.words[1:]) }
	}
	return nil
}

// runLater judges the command after some operands. Its first word
// depends on the options before it.
func (c *call) runLater(skip int, words []word) {
	options := false
	for i, w := range words {
		switch {
		case w.splits || w.globs:
			c.s.hidden("which program "+c.words[0].text+" runs", c.span())
			return
		case w.is("--"):
			c.run(words[min(i+1+skip, len(words)):])
			return
		case w.mayBeOption():
			options = true
		case skip > 0:
			skip--
		case !options:
			c.run(words[i:])
			return
		default:
			c.unknown("which of its words "+c.words[0].text+" runs", c.words[0])
			c.runAny(words[i:])
			return
		}
	}
}

// runAny judges each word as the start of a command, and a word with a space as a
// line for a shell. Options and assignments are none.
func (c *call) runAny(words []word) {
	for i, w := range words {
		switch {
		case w.splits || w.globs:
			c.s.hidden("which program "+c.words[0].text+" runs", c.span())
			return
		case w.mayBeOption() || isAssignment(w.text) || w.is("-"):
		case w.static && strings.ContainsAny(w.text, " \t\n;|&"):
			c.shell(w, false)
		default:
			c.run(words[i:])
		}
	}
}

// mayBeProgram reports whether a word after a program that starts others is a program's
// name. An option, a lone dash or an assignment shows that the words are read wrongly here.
func mayBeProgram(text string) bool {
	return text == "" || text[0] != '-' && text[0] != '+' && !isAssignment(text)
}

func isAssignment(text string) bool {
	name, _, has := strings.Cut(text, "=")
	return has && isName(name)
}
