package replicas

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"belljar/internal/lazyregexp"
	"belljar/internal/names"
)

// Store is where replicas write down what the others are to know. Update and Delete are for what has not changed since it was read;
// Delete leaves anything else.
type Store interface {
	List(ctx context.Context, kind string) ([]Entry, error)
	Get(ctx context.Context, name string) (Entry, error)
	Create(ctx context.Context, e Entry) (Entry, error)
	Update(ctx context.Context, e Entry) (Entry, error)
	Delete(ctx context.Context, e Entry) error
}

// Entry is something that is written down. Names are unique.
type Entry struct {
	Kind, Name string
	Holder     string            // "" for none
	For        time.Duration     // how long it counts without being renewed
	Age        time.Duration     // since it was made, changed or renewed
	Lives      bool              // it was renewed in time, and its holder has not certainly ended
	Values     map[string]string // by names
	Version    string            // of what was read, for Update
	UID        string
}

var (
	// ErrTaken is of a Store: another replica made or changed the entry meanwhile.
	ErrTaken = errors.New("another replica has changed it")
	// ErrNone is of a Store: there is no such entry.
	ErrNone = errors.New("there is none")
)

// Config is what a replica needs.
type Config struct {
	Name    string                      // as NewName makes it
	Self    string                      // this process, as the holder of Leases
	Address netip.Addr                  // at which the others reach this one
	Port    uint16                      // of all of them
	Secure  func() (*tls.Config, error) // for a connection to another one; nil: plain
	Store   Store
	Local   Local
	Keep    time.Duration // how long an execution is known after its end
	Log     *slog.Logger
}

// Local is what this replica has itself.
type Local interface {
	Sessions
	// Knows reports whether there is an execution of that ID here which is the caller's.
	Knows(ctx context.Context, id string) bool
	// Asks reports whether a question about the execution of that ID waits here for an answer.
	Asks(id string) bool
	// Keys are the owners and the idempotency keys of the executions here, and KnowsKey reports whether one is among them.
	Keys() [][2]string
	KnowsKey(owner, key string) bool
}

const (
	// leaseFor is how long a replica that is not heard of counts as running, and renewEach how often it is heard of.
	leaseFor, renewEach = 40 * time.Second, 10 * time.Second
	// pause is between two looks at who there is, and two tries.
	pause = time.Second / 2
	// patience is how long a request waits for a session to come to rest.
	patience = 20 * time.Second
)

// The kinds of entries, whose names begin with them.
const (
	kindReplica, kindSession, kindKey = "replica", "session", "key"
)

// Replicas is this replica, and what it knows of the others.
type Replicas struct {
	Config
	transport *http.Transport
	life      context.Context
	end       context.CancelFunc
	proof     string // see isFrom
	all       sync.WaitGroup
	looking   chan struct{} // has one while someone looks who there is

	mu sync.Mutex
	lease
	looked  time.Time
	peers   map[string]*peer     // that live
	mute    map[string]bool      // that live, and cannot be asked: their entries say where no other replica can be
	away    map[string]bool      // entries of those that ended just now, and may start again
	odd     map[string]string    // their versions, and those of entries that are no replicas'; logged once the log has them
	homes   map[string]*home     // sessions, by their names
	placing map[string]bool      // entries of requests' keys, and sessions, that are
	denied  map[string]time.Time // entries of keys, and when: see denies
	chosen  map[string]string    // IDs that callers chose, and who has them
	requests
	draining bool
}

// lease is this replica's.
type lease struct {
	own     Entry
	renewed time.Time
	lapses  int       // how often that was too late
	resumed time.Time // when it took that of an earlier process, zero if there was none
}

// peer is another replica.
type peer struct {
	name    string
	address netip.AddrPort
	proof   string          // Replicas.mu guards it
	life    context.Context // until it is gone
	lose    context.CancelCauseFunc
}

const nameLength = 6

var namePattern = lazyregexp.New(`^[a-z2-7]{6}$`)

// NewName is a replica's name, a part of the IDs of its executions.
func NewName() string { return strings.ToLower(rand.Text()[:nameLength]) }

// CheckName reports whether NewName could have made it.
func CheckName(name string) bool { return namePattern.MatchString(name) }

// NewID is an execution's ID, as names.NewID has it, with the replica's name.
func (r *Replicas) NewID() string {
	if r == nil {
		return names.NewID()
	}
	return names.NewID() + "-" + r.Name
}

var idPattern = lazyregexp.New(`^[0-7][0-9A-HJKMNP-TV-Z]{25}-([a-z2-7]{6})$`)

// OwnerOf is the name of the replica that chose an ID, "" if a caller did.
func OwnerOf(id string) string {
	if m := idPattern.FindStringSubmatch(id); m != nil {
		return m[1]
	}
	return ""
}

// Join makes this replica known to the others, until Close, and has it forget the sessions that an earlier process had and others have now.
// ctx is for joining only.
func Join(ctx context.Context, c Config) (*Replicas, error) {
	r := &Replicas{Config: c, proof: rand.Text(), looking: make(chan struct{}, 1), peers: map[string]*peer{}, odd: map[string]string{}, homes: map[string]*home{}, placing: map[string]bool{}, denied: map[string]time.Time{}, chosen: map[string]string{}, requests: requests{repeats: map[string]int{}, watches: map[*watch]bool{}}}
	r.life, r.end = context.WithCancel(context.Background())
	r.transport = r.newTransport()
	begun := time.Now()
	own, again, err := r.join(ctx)
	if err != nil {
		r.end()
		return nil, fmt.Errorf("joining the other replicas: %w", err)
	}
	if r.own, r.renewed = own, begun; again {
		r.resumed = begun
	}
	r.log(r.forgetTaken(ctx), "looking for sessions that other replicas have now")
	r.all.Go(r.renewals)
	r.all.Go(r.upkeep)
	return r, nil
}

func (r *Replicas) entry() Entry {
	values := map[string]string{"address": r.Address.String(), "proof": r.proof}
	if !r.resumed.IsZero() {
		values[resumes] = "1"
	}
	return Entry{Kind: kindReplica, Name: entryName(kindReplica, r.Name), Holder: r.Self, For: leaseFor, Values: values}
}

// join makes the replica's Lease, or takes that of an earlier process with the same state directory again.
func (r *Replicas) join(ctx context.Context) (own Entry, again bool, err error) {
	own, err = r.Store.Create(ctx, r.entry())
	if !errors.Is(err, ErrTaken) {
		return own, false, err
	}
	old, err := r.Store.Get(ctx, r.entry().Name)
	if err != nil {
		return old, false, err
	}
	next := r.entry()
	next.Version, next.Values[resumes] = old.Version, "1"
	own, err = r.Store.Update(ctx, next)
	return own, true, err
}

// renewals say that this replica lives, until Close, whatever else takes long.
func (r *Replicas) renewals() {
	for r.awaitNext() {
		r.renew()
	}
}

// upkeep looks who else lives, and after the sessions, until Close.
func (r *Replicas) upkeep() {
	for {
		r.log(r.lookAround(r.life), "looking after the other replicas")
		if !r.awaitNext() {
			return
		}
	}
}

// awaitNext is false once this replica ends.
func (r *Replicas) awaitNext() bool {
	select {
	case <-time.After(renewEach):
		return true
	case <-r.life.Done():
		return false
	}
}

func (r *Replicas) renew() {
	ctx, cancel := context.WithTimeout(r.life, renewEach/2)
	defer cancel()
	begun := time.Now()
	r.mu.Lock()
	next := r.own
	r.mu.Unlock()
	next.Values = r.entry().Values
	now, err := r.Store.Update(ctx, next)
	if errors.Is(err, ErrTaken) || errors.Is(err, ErrNone) {
		r.Log.Warn("this replica's lease was changed by another program, and is made again")
		now, _, err = r.join(ctx)
	}
	if err != nil {
		r.log(err, "renewing this replica's lease")
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if begun.Sub(r.renewed) > leaseFor {
		for _, h := range r.homes {
			h.unsure = true // others may have taken it: the next request looks
		}
		r.lapses++
	}
	r.own, r.renewed = now, begun
}

func (r *Replicas) log(err error, doing string) {
	if err != nil && r.life.Err() == nil {
		r.Log.Warn(doing+" failed", "error", err)
	}
}

// Close says that this replica ends, which gives back its sessions, and forgets the others.
func (r *Replicas) Close() error {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewEach)
	defer cancel()
	r.end()
	r.all.Wait()
	for until := time.Now().Add(renewEach / 2); r.isPlacing() && wait(ctx, until); { // a session that is being taken over
	}
	r.releaseAll(ctx)
	r.mu.Lock()
	own, peers := r.own, r.peers
	r.peers = map[string]*peer{}
	r.mu.Unlock()
	for _, p := range peers {
		p.lose(errClosed)
	}
	r.transport.CloseIdleConnections()
	last, done := context.WithTimeout(context.Background(), renewEach/2) // the sessions may have taken the time before
	defer done()
	own.Holder = "" // it is kept for a while: an idempotency key of it is not to run again
	_, err := r.Store.Update(last, own)
	return err
}

func (r *Replicas) isPlacing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.placing) > 0
}

var errClosed = errors.New("this replica ends")
