package policy

import (
	"slices"
	"strings"

	"belljar/internal/lazyregexp"
)

// programs are the known programs, one row each: which of their
// arguments make them run another program or write a file. A program without a
// row is allowed, with all its effects, by a rule that names it.
var programs = map[string]func(*call){}

// wrapperRow is a program whose operands are a command.
type wrapperRow struct {
	name string
	spec string
	skip int  // operands before the command
	does bool // it changes the user or place of the command, so it needs a rule too
}

// The grammars stop at the first operand. Sources: the programs' man pages
// (coreutils 9, util-linux 2.39, busybox 1.36, findutils 4.9).
var wrapperRows = []wrapperRow{
	{"nohup", "help version", 0, false},
	{"nice", "n,adjustment: @numbers help version", 0, false},
	{"ionice", "c,class: n,classdata: t,ignore h,help V,version", 0, false},
	{"timeout", "s,signal: k,kill-after: v,verbose f,foreground p,preserve-status help version", 1, false},
	{"stdbuf", "i,input: o,output: e,error: help version", 0, false},
	{"setsid", "c,ctty f,fork w,wait h,help V,version", 0, false},
	{"time", "p,portability v,verbose a,append q,quiet f,format: o,output:!w h,help V,version", 0, false},
	{"caffeinate", "d i m s u t:", 0, false},
	{"unbuffer", "p", 0, false},
	{"taskset", "a,all-tasks c,cpu-list h,help V,version", 1, false},
	{"chrt", "b,batch d,deadline f,fifo i,idle o,other r,rr a,all-tasks h,help V,version", 1, false},
	{"choom", "n,adjust: h,help V,version", 0, false},
	{"prlimit", "n,nofile? v,as? c,core? t,cpu? f,fsize? u,nproc? s,stack? h,help V,version", 0, false},
	{"busybox", "help", 0, false},
	{"toybox", "help", 0, false},
	{"sudo", "A,askpass!o b,background E preserve-env? H,set-home i,login!o s,shell!o n,non-interactive u,user: g,group: P,preserve-groups S,stdin k,reset-timestamp C,close-from: D,chdir:!C p,prompt: R,chroot:!R T,command-timeout: h,host: e,edit!o l,list v,validate K V", 0, true},
	{"doas", "n s!o u: C:!o L", 0, true},
	{"unshare", "m u i n p U C T mount? uts? ipc? net? pid? user? cgroup? time? f,fork r,map-root-user c,map-current-user kill-child? mount-proc? R,root:!R w,wd:!C", 0, true},
	{"nsenter", "t,target: a,all!R m,mount?!R u,uts? i,ipc? n,net? p,pid? U,user? C,cgroup? T,time? r,root?!R w,wd?!C F,no-fork", 0, true},
	{"setpriv", "reuid: regid: clear-groups keep-groups init-groups no-new-privs inh-caps: ambient-caps: bounding-set: d,dump", 0, true},
	{"setuidgid", "", 1, true}, {"chpst", "u: U: e:!o /:!R n: l: L: P", 0, true}, {"softlimit", "m: d: s: l: a: o: p: f: c: r: t:", 0, true},
	{"strace", "f,follow-forks F q quiet? c C T syscall-times? t absolute-timestamps? r relative-timestamps? v,no-abbrev y,decode-fds? i s,string-limit: e,trace: E:!o o,output:!p p,attach: u,user: S: P: b: I: h V", 0, true},
	{"ltrace", "f c C t r S T i e: o,output:!w p: u: s: n: l: x: F:!o", 0, true},
	{"valgrind", "@single tool: leak-check: q,quiet v,verbose log-file:!w error-exitcode: track-origins: show-leak-kinds:", 0, true},
	{"catchsegv", "", 0, true}, {"faketime", "f m p:", 1, true},
	{"cpulimit", "l: p: e: b z i v q", 0, true}, {"torsocks", "", 0, true}, {"proxychains", "q f:!o", 0, true},
	{"proxychains4", "q f:!o", 0, true}, {"su-exec", "", 1, true}, {"gosu", "", 1, true},
}

func init() {
	for _, row := range wrapperRows {
		grammar := newGrammar(row.spec + " @ordered")
		programs[row.name] = func(c *call) {
			p := c.parse(c.words[1:], grammar)
			for row.name == "sudo" && len(p.operands) > 0 && !p.ended && !p.operands[0].splits && isAssignment(p.operands[0].text) {
				name, value, _ := strings.Cut(p.operands[0].text, "=")
				c.env = append(c.env, c.s.j.setting(name, value, p.operands[0].static))
				options := p.options
				p = c.parse(p.operands[1:], grammar) // options may follow
				p.options = append(options, p.options...)
			}
			operands := p.operands
			unknown := slices.ContainsFunc(c.uses, func(u use) bool { return u.kind == useUnknown }) // an option, which may take a word
			c.wrapper = !row.does
			if p.has("login") {
				c.in = unknownDirs // another user's home
			}
			if len(operands) > 0 && (operands[0].splits || operands[0].globs) {
				c.s.hidden("which program "+row.name+" runs", c.span())
				return
			}
			if len(operands) > 0 && !isCount(row.name, operands[0]) {
				c.unknown("whether "+row.name+" reads the word as a number or a command", operands[0])
				unknown = true
			}
			if unknown {
				c.runAny(operands)
				return
			}
			c.run(operands[min(row.skip, len(operands)):])
		}
	}
	for _, name := range []string{"sh", "dash", "ash", "bash", "rbash"} {
		programs[name] = shell
	}
	programs["setarch"] = setarch
	programs["env"] = env
	programs["xargs"] = xargs
	programs["flock"] = flock
	programs["watch"] = watch
	programs["parallel"] = parallel
	programs["capsh"] = capsh
	programs["chroot"] = chroot
	programs["ssh"] = ssh
	programs["su"], programs["runuser"] = su, runuser
	programs["script"] = scriptCommand
}

// counts are the operands that programs take before the command. Of others some versions
// take no operand, and run that word.
var counts = map[string]*lazyregexp.Regexp{
	"timeout": lazyregexp.New(`^([0-9]+\.?[0-9]*|\.[0-9]+)[smhd]?$`),
	"taskset": lazyregexp.New(`^((0x)?[0-9a-fA-F]+|[0-9]+[-:,0-9]*)$`),
	"chrt":    lazyregexp.New(`^[0-9]+$`),
}

// isCount reports whether the operand is certainly the one before the command.
func isCount(program string, w word) bool {
	text := w.text
	if w.form != "" {
		text = strings.ReplaceAll(w.form, "\x00", "1")
	}
	re := counts[program]
	return re == nil || w.number || (w.static || w.form != "") && re.MatchString(text)
}

var setarchOptions = newGrammar("v,verbose R,addr-no-randomize B,32bit h,help V,version @ordered")

// setarch reads its first word as an architecture only if it is no option:
// `setarch -R rm x` runs rm.
func setarch(c *call) {
	c.wrapper = true
	words := c.words[1:]
	if len(words) == 0 {
		return
	}
	if words[0].splits || words[0].globs || !words[0].static && words[0].mayBeOption() {
		c.s.hidden("which program setarch runs", c.span())
		return
	}
	if !words[0].mayBeOption() {
		words = words[1:]
	}
	c.run(c.parse(words, setarchOptions).operands)
}

var flockOptions = newGrammar("s,shared x,e,exclusive u,unlock n,nb,nonblock w,wait,timeout: E,conflict-exit-code: o,close F,no-fork verbose c,command h,help V,version @ordered")

func flock(c *call) {
	operands := c.parse(c.words[1:], flockOptions).operands
	if len(operands) == 0 {
		return
	}
	if !isDigits(operands[0].text) {
		c.write(operands[0], 1)
	}
	if rest := operands[1:]; len(rest) > 1 && (rest[0].is("-c") || rest[0].is("--command")) {
		c.shell(rest[1], false)
	} else {
		c.run(rest)
	}
}

var watchOptions = newGrammar("n,interval: d,differences? b,beep c,color C,no-color e,errexit g,chgexit p,precise q,equexit: r,no-rerun t,no-title w,no-wrap x,exec h,help v,version @ordered")

// watch joins its words and runs them with sh, unless an option says not to.
func watch(c *call) {
	p := c.parse(c.words[1:], watchOptions)
	if len(p.operands) == 0 {
		return
	}
	c.wrapper = true
	if p.has("exec") {
		c.run(p.operands)
		return
	}
	c.shell(join(p.operands), false)
}

func join(words []word) word {
	joined := word{static: true, inner: -1, start: words[0].start, end: words[len(words)-1].end}
	if len(words) == 1 {
		return words[0]
	}
	var texts []string
	for _, w := range words {
		joined.static = joined.static && w.static
		texts = append(texts, w.text)
	}
	joined.text = strings.Join(texts, " ")
	return joined
}

// capsh gives what follows -- to a shell.
func capsh(c *call) {
	end := slices.IndexFunc(c.words, func(w word) bool { return w.is("--") })
	if end < 0 {
		end = len(c.words)
	}
	for _, w := range c.words[1:end] {
		c.unknown("what capsh does with "+w.show(), w)
	}
	words := c.words[min(end+1, len(c.words)):]
	c.shellWith(words)
	if c.wrapper = false; c.s.j.policy.rules.Default > Deny {
		c.runAny(words)
	}
}

var chrootOptions = newGrammar("userspec: groups: skip-chdir help version @ordered")

// chroot runs a command in the root that its first operand names.
func chroot(c *call) {
	operands := c.parse(c.words[1:], chrootOptions).operands
	if len(operands) > 0 && (operands[0].splits || operands[0].globs) {
		c.s.hidden("which program chroot runs", c.span())
		return
	}
	c.goElsewhere()
	if len(operands) > 1 {
		c.run(operands[1:])
	} else {
		c.opaque("runs a shell", c.words[0], 1)
	}
}

// parallel builds a shell line from its words and its input, which is unknown. A
// rule that names it allows that; a rule that denies the command still counts.
func parallel(c *call) {
	c.opaque("runs its words and its input in a shell", c.words[0], 1)
	if c.s.j.policy.rules.Default > Deny {
		c.runAny(c.words[1:])
	}
}
