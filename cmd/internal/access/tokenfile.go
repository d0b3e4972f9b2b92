package access

import (
	"belljar/internal/lazyregexp"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"

	"go.yaml.in/yaml/v3"
)

// Bounds of a token file.
const (
	maxFile   = 1 << 20
	maxTokens = 1000
	maxItems  = 100 // of a token's scopes, and of its profiles
)

const (
	minToken = 20 // characters
	maxToken = 4096
)

const example = `{name: ci, token: "…", scopes: [run]}`

// reserved are names that belljar itself uses for who owns or decides.
var reserved = []string{"local", "nobody", "terminal", "session", "runner"}

var (
	tokenChars  = lazyregexp.New(`^[A-Za-z0-9._~+/-]+=*$`) // RFC 6750, 2.1
	digestChars = lazyregexp.New(`^[0-9A-Fa-f]{64}$`)
)

// credential is one entry of the file: an identity, and what proves it.
type credential struct {
	Identity
	digest  [sha256.Size]byte // of the token; unset with a name
	cn      string            // the name of a client certificate, or empty
	expires time.Time         // zero: never
	line    int
}

// entry is a credential that is being read, with the fields that it had.
type entry struct {
	credential
	had map[string]*yaml.Node
}

// parse reads a token file. Messages name its line and field, and no value: that may be
// a token in the wrong place.
func parse(name string, text []byte) ([]credential, error) {
	f := tokenFile(name)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, f.syntax(err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: name + ": has a second YAML document", Hint: "keep one"}
	}
	var all []credential
	err := f.mapping(document.Content[0], "", func(key string, value *yaml.Node) error {
		if key != "tokens" {
			return f.wrong(value, key, "write tokens: ["+example+"]", "is not a known key")
		}
		return f.list(value, key, maxTokens, func(path string, item *yaml.Node) error {
			c, err := f.credential(item, path)
			if err == nil {
				err = f.isNew(c, path, item, all)
			}
			all = append(all, c)
			return err
		})
	})
	if err == nil && len(all) == 0 {
		err = f.wrong(document.Content[0], "the file", "write tokens: ["+example+"]", "has no tokens")
	}
	return all, err
}

func (f tokenFile) credential(n *yaml.Node, path string) (credential, error) {
	e := entry{credential{line: n.Line, Identity: Identity{Profiles: []string{sandbox.DefaultProfile}}}, map[string]*yaml.Node{}}
	err := f.mapping(n, path, func(key string, value *yaml.Node) error {
		e.had[key] = value
		return f.set(&e, path+"."+key, key, value)
	})
	if err != nil {
		return credential{}, err
	}
	for _, key := range []string{"name", "scopes"} {
		if e.had[key] == nil {
			return credential{}, f.wrong(n, path, "write one such as "+example, "has no %s", key)
		}
	}
	proofs := 0
	for _, key := range []string{"token", "sha256", "cert_cn"} {
		if e.had[key] != nil {
			proofs++
		}
	}
	if proofs != 1 {
		return credential{}, f.wrong(n, path, "write one of token, sha256 and cert_cn", "has %d of token, sha256 and cert_cn", proofs)
	}
	return e.credential, nil
}

func (f tokenFile) set(e *entry, path, key string, n *yaml.Node) (err error) {
	switch key {
	case "scopes":
		e.Scopes = nil
		return f.list(n, path, maxItems, func(path string, item *yaml.Node) error {
			text, err := f.text(item, path)
			if scope := Scope(text); err == nil && !slices.Contains(scopes, scope) {
				err = f.wrong(item, path, "write run, read, approve, metrics or admin", "is not a scope")
			}
			e.Scopes = append(e.Scopes, Scope(text))
			return err
		})
	case "profiles":
		e.Profiles = nil
		return f.list(n, path, maxItems, func(path string, item *yaml.Node) error {
			text, err := f.text(item, path)
			e.Profiles = append(e.Profiles, text)
			return err
		})
	case "name", "token", "sha256", "cert_cn", "expires":
		return f.setText(e, path, key, n)
	}
	return f.wrong(n, path, "the keys are name, token, sha256, cert_cn, scopes, profiles and expires", "is not a known key")
}

func (f tokenFile) setText(e *entry, path, key string, n *yaml.Node) error {
	if key == "expires" {
		at, err := time.Parse(time.RFC3339, n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			return f.wrong(n, path, "write one such as 2027-01-01T00:00:00Z", "is not a time")
		}
		e.expires = at
		return nil
	}
	text, err := f.text(n, path)
	if err != nil {
		return err
	}
	switch key {
	case "name":
		e.Name = text
		if unfit, ok := errors.AsType[*sandbox.Error](names.CheckSession(text)); ok {
			return f.wrong(n, path, unfit.Hint, "is not a name")
		}
		if slices.Contains(reserved, text) {
			return f.wrong(n, path, "choose another", "is a name of belljar's own")
		}
	case "token":
		e.digest = sha256.Sum256([]byte(text))
		if len(text) < minToken || len(text) > maxToken {
			return f.wrong(n, path, "make one with: openssl rand -base64 32", "must have %d to %d characters", minToken, maxToken)
		}
		if !tokenChars.MatchString(text) {
			return f.wrong(n, path, "make one with: openssl rand -base64 32", "has characters that a header cannot carry")
		}
	case "sha256":
		if !digestChars.MatchString(text) {
			return f.wrong(n, path, "write the 64 digits of: printf %s TOKEN | sha256sum", "is not a SHA-256 in hex")
		}
		_, err = hex.Decode(e.digest[:], []byte(text))
	case "cert_cn":
		e.cn = text
	}
	return err
}

// isNew refuses two entries of one name or of one token: the second would never apply.
func (f tokenFile) isNew(c credential, path string, n *yaml.Node, before []credential) error {
	for _, other := range before {
		same := ""
		switch {
		case c.Name == other.Name:
			same = "name"
		case c.cn != other.cn:
		case c.cn != "":
			same = "certificate"
		case c.digest == other.digest:
			same = "token"
		}
		if same != "" {
			return f.wrong(n, path, "remove one of them, or give it another "+same, "has the %s of the entry on line %d", same, other.line)
		}
	}
	return nil
}
