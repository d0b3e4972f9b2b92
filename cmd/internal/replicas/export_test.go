package replicas

import (
	"context"
	"net"
	"net/http"
)

// Look looks who there is now, and after the sessions.
func (r *Replicas) Look(ctx context.Context) error { return r.lookAround(ctx) }

// GiveBack gives a session back.
func (r *Replicas) GiveBack(ctx context.Context, session string) error {
	return r.giveBack(ctx, session)
}

// SessionEntry is the name of a session's entry.
func SessionEntry(session string) string { return entryName(kindSession, session) }

// KeyEntry is the name of a key's entry.
func KeyEntry(owner, key string) string { return entryName(kindKey, owner, key) }

// Peers are who lives.
func (r *Replicas) Peers() (names []string) {
	for _, p := range r.living() {
		names = append(names, p.name+" "+p.address.String())
	}
	return names
}

// Mark is the header of requests that this replica sends on.
func (r *Replicas) Mark() string { return mark + ": " + r.Name + " " + r.proof }

// Refuse answers with an error.
func Refuse(w http.ResponseWriter, err error) { refuse(w, err) }

// WithCredentials is ctx of a request that Wrap passed on.
func WithCredentials(ctx context.Context, authorization string) context.Context {
	return context.WithValue(ctx, credentialsKey{}, []string{authorization})
}

// DialWith has other replicas be reached by another way than the network, before they are.
func (r *Replicas) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	r.transport.DialContext = dial
}
