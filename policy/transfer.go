package policy

import (
	"strings"

	"belljar/internal/lazyregexp"
)

// transfers judges curl: what it sends to a file:// address it writes there, and its
// output may be named by a format (%output{…}) or by a part of the address (#1).
func (c *call) transfers(p *parsed) {
	addresses := p.operands
	for _, o := range p.options {
		switch o.name {
		case "url":
			addresses = append(addresses, o.value)
			if !o.value.static || strings.HasPrefix(o.value.text, "@") {
				c.writeSomewhere("may write files that a list of addresses names", o.value, 0)
			}
		case "write-out":
			if !o.value.static || strings.HasPrefix(o.value.text, "@") || strings.Contains(o.value.text, "%output") {
				c.writeSomewhere("may write files that its format names", o.value, 0)
			}
		case "output":
			if strings.Contains(o.value.text, "#") {
				c.writeSomewhere("writes files that the address names", o.value, 0)
			}
		}
	}
	if !p.has("upload-file") {
		return
	}
	for _, w := range addresses {
		if !isRemote(w) {
			c.writeSomewhere("may write the file that its address names", w, 0)
		}
	}
}

var remoteAddress = lazyregexp.New(`^(?i:[a-z][a-z0-9+.-]*):`)

// isRemote reports whether the address is certainly no file, nor a pattern that makes one.
func isRemote(w word) bool {
	scheme := remoteAddress.FindString(w.text)
	if scheme == "" {
		return w.static && !strings.ContainsAny(w.text, ":{[")
	}
	return !w.splits && !strings.EqualFold(scheme, "file:")
}

// outputs judges ffmpeg: a protocol (file:/x) or a pattern (%d) makes a name another one.
func (c *call) outputs(p *parsed) {
	for _, w := range p.operands {
		if c.write(w, 1); strings.ContainsAny(w.text, ":%") {
			c.writeSomewhere("writes files that its words name in another way", w, 1)
		}
	}
}
