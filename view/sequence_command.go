package view

const (
	maxParameters = 32    // xterm has 30
	maxParameter  = 32767 // more than any screen has
)

// command is a control sequence: CSI, parameters and a final byte.
type command struct {
	private      byte // one of < = > ?, or 0
	intermediate byte
	final        byte
	bad          bool // has bytes in wrong places
	count        int
	values       [maxParameters]int
	sub          [maxParameters]bool // after a colon: belongs to the previous one
}

// reset forgets everything. Parameters beyond count are undefined.
func (c *command) reset() {
	c.private, c.intermediate, c.final, c.bad, c.count = 0, 0, 0, false, 0
}

// add reads the next byte and reports whether it was the last.
func (c *command) add(b byte) bool {
	switch {
	case b >= '@':
		c.final = b
		return true
	case b >= '<':
		c.bad = c.bad || c.count > 0 || c.private != 0 || c.intermediate != 0
		c.private = b
	case b < '0':
		c.intermediate = b
	case b >= ':':
		c.start()
		c.push(b == ':')
	default:
		c.start()
		if c.count <= maxParameters {
			value := &c.values[c.count-1]
			*value = min(*value*10+int(b-'0'), maxParameter)
		}
	}
	return false
}

// start adds the first parameter, which is missing in a sequence without any.
func (c *command) start() {
	if c.bad = c.bad || c.intermediate != 0; c.count == 0 {
		c.push(false)
	}
}

// push begins a parameter. Parameters beyond the maximum are read and ignored.
func (c *command) push(sub bool) {
	if c.count < maxParameters {
		c.values[c.count], c.sub[c.count] = 0, sub
		c.count++
	} else {
		c.count = maxParameters + 1
	}
}

// parameters are those within the maximum.
func (c *command) parameters() []int { return c.values[:min(c.count, maxParameters)] }

// value is a parameter, or otherwise if it is 0 or missing.
func (c *command) value(i, otherwise int) int {
	if p := c.parameters(); i < len(p) && p[i] != 0 {
		return p[i]
	}
	return otherwise
}
