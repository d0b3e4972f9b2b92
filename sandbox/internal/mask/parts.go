package mask

// Ending is how much of a text's end may become part of a secret.
func (m *Masks) Ending(text string) int {
	if m == nil {
		return 0
	}
	stream := NewStream(m)
	stream.Feed([]byte(text))
	return len(stream.held)
}

// find returns the positions of the secrets in s, in order.
func (m *Masks) find(s string) []span {
	stream := NewStream(m)
	stream.scan([]byte(s), 0)
	stream.held = []byte(s)
	stream.finish()
	return stream.found
}

// TextOf masks what may be a part of a secret in the text that s was
// cut from, and returns how many times.
func (m *Masks) TextOf(text, whole string) (string, int) {
	parts := pieces{}
	for _, s := range m.find(whole) {
		parts.add(whole[s.start:s.end])
	}
	return parts.hide(text)
}

// pieces are parts of secrets as long as the shortest secret.
type pieces map[string]bool

func (p pieces) add(secret string) {
	for i := range len(secret) - MinSecret + 1 {
		p[secret[i:i+MinSecret]] = true
	}
}

// hide masks text that consists of them, and returns how many times.
func (p pieces) hide(s string) (string, int) {
	if len(p) == 0 {
		return s, 0
	}
	out, done, count := "", 0, 0
	for i := 0; i+MinSecret <= len(s); i++ {
		if !p[s[i:i+MinSecret]] {
			continue
		}
		end := i + MinSecret
		for next := i + 1; next <= end && next+MinSecret <= len(s); next++ {
			if p[s[next:next+MinSecret]] {
				end = next + MinSecret
			}
		}
		out += s[done:i] + masked
		count++
		done, i = end, end-1
	}
	return out + s[done:], count
}
