package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"sync/atomic"
	"time"

	"belljar/internal/ownfile"
)

// Tokens are the credentials of a token file. The zero Tokens has none. They are safe
// for concurrent use.
type Tokens struct {
	all  atomic.Pointer[[]credential]
	open openRequests
}

// Load replaces the tokens by those of the file, which other users must not be able to
// read. After an error the tokens are those of before. Requests whose token is gone, or may do
// less, end.
func (t *Tokens) Load(path string) error {
	text, err := ownfile.ReadSecret("token file", path, maxFile)
	if err != nil {
		return err
	}
	all, err := parse(path, text)
	if err != nil {
		return err
	}
	t.all.Store(&all)
	t.changed()
	return nil
}

var (
	errUnknown = errors.New("the token is not known")
	errExpired = errors.New("the token has expired")
)

// bearer is the identity that a token proves. It takes the same time for every token: it
// compares all of them, and digests, of which no part can be guessed.
func (t *Tokens) bearer(token string, now time.Time) (credential, error) {
	digest, found := sha256.Sum256([]byte(token)), -1
	all := t.list()
	for i := range all {
		same := subtle.ConstantTimeCompare(digest[:], all[i].digest[:]) // a certificate's is zero, which no token has
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return credential{}, errUnknown
	}
	return all[found].at(now)
}

// certificate is the identity of a client certificate with that common name.
func (t *Tokens) certificate(cn string, now time.Time) (credential, error) {
	for _, c := range t.list() {
		if cn != "" && c.cn == cn {
			return c.at(now)
		}
	}
	return credential{}, errUnknown
}

func (t *Tokens) list() []credential {
	if t == nil || t.all.Load() == nil {
		return nil
	}
	return *t.all.Load()
}

// at is the credential, unless it has expired. Its name is for the log only.
func (c credential) at(now time.Time) (credential, error) {
	if !c.expires.IsZero() && !now.Before(c.expires) {
		return credential{Identity: Identity{Name: c.Name}}, errExpired
	}
	return c, nil
}
