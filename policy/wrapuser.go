package policy

// Programs that run a command as another user, on another host or on another terminal.

var sshOptions = newGrammar("4 6 A a C f G g K k M N n q s T t V v X x Y y B: b: c: D: E:!w e: F:!o I:!o i: J: L: l: m: O: o:!o p: Q: R: S:!o W: w: @ordered")

// ssh runs its words in a shell on the other host.
func ssh(c *call) {
	words := c.parse(c.words[1:], sshOptions).operands
	if len(words) == 0 {
		return
	}
	for words = words[1:]; len(words) > 0 && words[0].mayBeOption(); { // they may follow the host
		if words[0].splits || words[0].globs {
			c.s.hidden("what ssh runs", c.span())
			return
		}
		words = c.parse(words, sshOptions).operands
	}
	if len(words) > 0 {
		c.goElsewhere()
		c.shell(join(words), false)
	}
}

var suOptions = newGrammar("c,command:!X session-command:!X l,login m,p,preserve-environment s,shell:!o g,group: G,supp-group: P,pty w,whitelist-environment: f,fast")

func su(c *call) {
	c.in = unknownDirs // with -l another user's home, in any position
	p := c.parse(c.words[1:], suOptions)
	if !p.has("command") {
		c.opaque("runs a shell", c.words[0], 1)
	}
	user := p.operands
	if len(user) > 0 && user[0].is("-") { // as -l
		user = user[1:]
	}
	if len(user) > 1 {
		c.unknown("what the other user's shell runs", user[1])
		c.shellWith(user[1:])
	}
}

var runuserOptions = newGrammar("u,user: g,group: G,supp-group: @ordered")

// runuser runs a command only after -u, and otherwise is su.
func runuser(c *call) {
	before := len(c.uses)
	if p := c.parse(c.words[1:], runuserOptions); p.has("user") {
		if len(c.uses) > before {
			c.runAny(p.operands)
		} else {
			c.run(p.operands)
		}
		return
	}
	c.uses = c.uses[:before]
	su(c)
}

var scriptOptions = newGrammar("a,append c,command:!X e,return f,flush q,quiet t,timing? B,log-io:!w I,log-in:!w O,log-out:!w T,log-timing:!w E,echo: m,logging-format: o,output-limit: force h,help V,version")

func scriptCommand(c *call) {
	p := c.parse(c.words[1:], scriptOptions)
	if !p.has("command") {
		c.opaque("runs a shell", c.words[0], 1)
	}
	if len(p.operands) > 1 || p.ended { // some versions run what follows the file, or --
		c.unknown("which of its words script runs", c.words[0])
		c.runAny(p.operands)
	}
	for _, w := range p.operands {
		c.write(w, 1)
	}
	c.writeSomewhere("writes a typescript", c.words[0], 1)
}
