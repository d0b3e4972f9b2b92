package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"belljar/internal/ownfile"
)

// Tokens are the credentials of a token file. The zero Tokens has none. They are safe
// for concurrent use.
type Tokens struct {
	all  atomic.Pointer[[]credential]
	open openRequests

	loading sync.Mutex
	file    ownfile.Changes // since it was last read
	failed  string          // why that could not be used, "" if it could
}

// Load replaces the tokens by those of the file, which other users must not be able to
// read. After an error the tokens are those of before. Requests whose token is gone, or may do
// less, end.
func (t *Tokens) Load(path string) error {
	t.loading.Lock()
	defer t.loading.Unlock()
	t.file.Since(path) // before it is read: what comes meanwhile is a change
	err := t.load(path)
	t.failed = said(err)
	return err
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (t *Tokens) load(path string) error {
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

// lookPause is how often Follow looks for a change.
const lookPause = 2 * time.Second

// Follow loads the file, which was loaded before, again after each change, until ctx ends. It waits until nothing changes any more: who
// writes to a file in place has not written all of it at first.
func (t *Tokens) Follow(ctx context.Context, path string, log *slog.Logger) {
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for changed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			changed = t.follow(path, changed, log)
		}
	}
}

// follow reports whether the file has just changed, and loads it if it had before, or if it could not be used the last time: why may have
// ended since, such as too many open files, and until then a token that was revoked is valid.
func (t *Tokens) follow(path string, before bool, log *slog.Logger) (changed bool) {
	t.loading.Lock()
	defer t.loading.Unlock()
	if t.file.Since(path) {
		return true
	}
	if !before && t.failed == "" {
		return false
	}
	err := t.load(path)
	switch {
	case err == nil:
		log.Info("the token file changed: its tokens are in use")
	case err.Error() != t.failed:
		log.Warn("the token file changed, and cannot be used: the tokens of before stay in use", "error", err)
	}
	t.failed = said(err)
	return false
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
