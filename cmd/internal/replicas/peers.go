package replicas

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"belljar/cmd/internal/problem"
)

// entryName is the name of an entry: Kubernetes takes neither all sessions' names nor all keys.
func entryName(kind string, of ...string) string {
	if kind == kindReplica {
		return "belljar-" + kind + "-" + of[0]
	}
	all := sha256.New()
	for _, part := range of {
		fmt.Fprintf(all, "%d:%s", len(part), part)
	}
	return "belljar-" + kind + "-" + hex.EncodeToString(all.Sum(nil)[:20])
}

// errGone is that a replica has ended, or that there never was one of that name.
var errGone = errors.New("the replica has ended")

// find is a replica that lives and can be asked, or errGone.
func (r *Replicas) find(ctx context.Context, name string) (*peer, error) {
	asked := time.Now()
	if p := r.peer(name); p != nil {
		return p, nil
	}
	if !CheckName(name) {
		return nil, errGone
	}
	if err := r.refresh(ctx, asked); err != nil {
		return nil, unavailable("which replicas there are cannot be found out now: "+err.Error(), "send the request again later")
	}
	if p := r.peer(name); p != nil {
		return p, nil
	}
	if r.lives(name) {
		return nil, errUnsettled // what it has is its own until it ends
	}
	return nil, errGone
}

func (r *Replicas) peer(name string) *peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peers[name]
}

// lives reports whether another replica lives, also if it cannot be asked.
func (r *Replicas) lives(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peers[name] != nil || r.mute[name]
}

// someReturn reports whether any replica that has ended may start again.
func (r *Replicas) someReturn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.away) > 0
}

const (
	// resumes is of the entry of a replica whose state directory outlives it: it has started again with it before.
	resumes = "resumes"

	// returnTime is how long it may take to start again.
	returnTime = 5 * time.Minute
)

// returns reports whether a replica that has ended may start again, with all that it had, or has.
func (r *Replicas) returns(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peers[name] != nil || r.mute[name] || r.away[entryName(kindReplica, name)]
}

// living are the other replicas that can be asked.
func (r *Replicas) living() (all []*peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.peers {
		all = append(all, p)
	}
	return all
}

// refresh looks who there is, if no one has since then. At most one look in each pause is the API server asked for, whatever
// IDs callers invent.
func (r *Replicas) refresh(ctx context.Context, since time.Time) error {
	select {
	case r.looking <- struct{}{}:
		defer func() { <-r.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	looked := r.looked
	r.mu.Unlock()
	if looked.After(since) {
		return nil
	}
	select {
	case <-time.After(time.Until(looked.Add(pause))):
	case <-ctx.Done():
		return ctx.Err()
	}
	begun := time.Now()
	list, err := r.Store.List(ctx, kindReplica)
	if err != nil {
		return err // who was there counts as being there
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked = begun
	there, mute, away := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, e := range list {
		if (!e.Lives || e.Holder == "") && e.Values[resumes] != "" && e.Age < returnTime {
			away[e.Name] = true
		}
		switch name, at := r.reads(e); {
		case at.IsValid():
			there[name] = true
			r.meet(name, at, e.Values["proof"])
		case name != "":
			mute[name] = true
		}
	}
	r.mute, r.away = mute, away
	for name, p := range r.peers {
		if !there[name] {
			p.lose(errGone)
			delete(r.peers, name)
		}
	}
	return nil
}

// reads is a replica that lives, "" for none, and where. Entries may have been written by anyone: only an address is taken of them, and none
// that is this machine's or a cloud's, at the one port. r.mu is held.
func (r *Replicas) reads(e Entry) (name string, at netip.AddrPort) {
	if len(e.Name) > nameLength {
		name = e.Name[len(e.Name)-nameLength:]
	}
	if e.Name == r.entry().Name || !e.Lives || e.Holder == "" {
		return "", at
	}
	address, err := netip.ParseAddr(e.Values["address"])
	known := CheckName(name) && e.Name == entryName(kindReplica, name)
	if err != nil || !known || !r.mayBe(address) {
		r.strange(e, known && address.Unmap() == r.Address)
		if !known {
			name = ""
		}
		return name, at
	}
	return name, netip.AddrPortFrom(address.Unmap(), r.Port)
}

// mayBe reports whether another replica can have the address.
func (r *Replicas) mayBe(a netip.Addr) bool {
	return CheckAddress(a) && a.Unmap() != r.Address && a.Unmap().IsLoopback() == r.Address.IsLoopback()
}

// CheckAddress reports whether others can reach a replica at the address.
func CheckAddress(a netip.Addr) bool {
	plain := a.Unmap()
	return plain.IsValid() && plain.Zone() == "" && !plain.IsUnspecified() && !plain.IsMulticast() && !plain.IsLinkLocalUnicast()
}

const logged, maxOdd = "logged", 1000

// strange has the log say once what is wrong with an entry. One that names this replica's own address may be of one before, which was killed
// just now: it is another's once it was renewed since. r.mu is held.
func (r *Replicas) strange(e Entry, same bool) {
	before, known := r.odd[e.Name]
	if before == logged || !known && len(r.odd) >= maxOdd {
		return
	}
	switch r.odd[e.Name] = logged; {
	case same && (!known || before == e.Version):
		r.odd[e.Name] = e.Version
	case same:
		r.Log.Error("another replica has this one's address, so that neither can ask the other: give each its own in serve.replicas.address, or leave that out", "lease", e.Name, "address", r.Address.String())
	default:
		r.Log.Warn("a replica's lease makes no sense, and it cannot be asked", "lease", e.Name, "address", fmt.Sprintf("%.60q", e.Values["address"]))
	}
}

// meet notes a replica. r.mu is held.
func (r *Replicas) meet(name string, at netip.AddrPort, proof string) {
	if old := r.peers[name]; old != nil {
		if old.address == at { // if it has started again, connections to the earlier process are broken already
			old.proof = proof
			return
		}
		old.lose(errGone)
	}
	p := &peer{name: name, address: at, proof: proof}
	p.life, p.lose = context.WithCancelCause(context.Background())
	r.peers[name] = p
}

// isFrom reports whether the replica that a request's mark names sent it on. Who knows a replica's proof can read its
// Lease. For a caller that only says so, this replica would look at no other for its keys and sessions.
func (r *Replicas) isFrom(ctx context.Context, mark string) bool {
	name, proof, _ := strings.Cut(mark, " ")
	asked := time.Now()
	if !CheckName(name) || proof == "" {
		return false
	}
	if r.hasProof(name, proof) {
		return true
	}
	r.log(r.refresh(ctx, asked), "looking for the other replicas") // it may be new
	return r.hasProof(name, proof)
}

func (r *Replicas) hasProof(name, proof string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peers[name]
	return p != nil && subtle.ConstantTimeCompare([]byte(p.proof), []byte(proof)) == 1
}

func unavailable(detail, hint string) *problem.Problem {
	p := problem.New(problem.Unavailable, detail, hint)
	p.RetryAfter = 2
	return p
}
