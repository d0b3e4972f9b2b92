package replicas

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"belljar/sandbox"
)

const (
	// askTime is how long replicas have to answer for a list.
	askTime = 5 * time.Second

	// lookTime bounds how long who there is is looked for then: who was there counts.
	lookTime = 2 * time.Second

	// maxList bounds a list, in bytes.
	maxList = 64 << 20
)

// lists are how the items of lists are ordered.
var lists = map[string]func(a, b item) int{
	"executions": func(a, b item) int { return b.Started.Compare(a.Started) },
	"sessions":   func(a, b item) int { return strings.Compare(a.Name, b.Name) },
	"approvals":  func(a, b item) int { return a.Deadline.Compare(b.Deadline) },
}

// item is one of a list, as far as it says where it belongs.
type item struct {
	Started, Deadline time.Time
	ID, Name          string
	text              json.RawMessage
}

// answered is what a replica says.
type answered struct {
	from   string
	status int
	text   []byte
	err    error
}

// ask asks replicas, with the credentials of a request, until one's answer is enough; nil: until all have answered.
func (r *Replicas) ask(ctx context.Context, header http.Header, path string, peers []*peer, enough func(answered) bool) []answered {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	all := make([]answered, len(peers))
	var asking sync.WaitGroup
	for i, p := range peers {
		asking.Go(func() {
			all[i] = r.askOne(ctx, http.MethodGet, header, path, p)
			if enough != nil && enough(all[i]) {
				cancel()
			}
		})
	}
	asking.Wait()
	return all
}

// lookFor looks who there is now.
func (r *Replicas) lookFor(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return r.refresh(ctx, time.Now())
}

func (r *Replicas) askOne(ctx context.Context, method string, header http.Header, path string, p *peer) answered {
	a := answered{from: p.name}
	req, err := http.NewRequestWithContext(ctx, method, path, nil)
	if err != nil {
		a.err = err
		return a
	}
	req.Header["Authorization"] = header["Authorization"]
	req.Header.Set("Accept", "application/json")
	r.address(req, p)
	answer, err := r.transport.RoundTrip(req)
	if err != nil {
		a.err = err
		return a
	}
	defer answer.Body.Close()
	a.status = answer.StatusCode
	a.text, a.err = io.ReadAll(io.LimitReader(answer.Body, maxList))
	return a
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *recorder) WriteHeader(status int)      { w.status = status }

// list is that of this replica and of all others, and who did not answer.
func (r *Replicas) list(w http.ResponseWriter, req *http.Request, kind string, next http.Handler) {
	var others []answered
	var asking sync.WaitGroup
	asking.Go(func() {
		r.log(r.lookFor(req.Context()), "looking for the other replicas") // one may be new
		others = r.ask(req.Context(), req.Header, req.URL.RequestURI(), r.living(), nil)
	})
	own := &recorder{header: w.Header(), status: http.StatusOK}
	next.ServeHTTP(own, req)
	asking.Wait()
	items, err := itemsOf(own.body.Bytes(), kind)
	if own.status != http.StatusOK || err != nil {
		w.WriteHeader(own.status)
		_, _ = w.Write(own.body.Bytes())
		return
	}
	unanswered := r.muted()
	for _, a := range others {
		theirs, err := itemsOf(a.text, kind)
		if a.err != nil || a.status != http.StatusOK || err != nil {
			unanswered = append(unanswered, a.from)
			continue
		}
		items = append(items, theirs...)
	}
	slices.SortStableFunc(items, lists[kind])
	if most, err := strconv.Atoi(cmp.Or(req.URL.Query().Get("limit"), "100")); kind == "executions" && err == nil {
		items = items[:min(len(items), most)]
	}
	texts := make([]json.RawMessage, len(items))
	for i := range items {
		texts[i] = items[i].text
	}
	merged := map[string]any{kind: texts}
	if len(unanswered) > 0 {
		slices.Sort(unanswered)
		merged["unanswered"] = unanswered
	}
	text, err := sandbox.JSON(merged)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(text, '\n')) // a caller that left needs no answer
}

// muted are the replicas that live and cannot be asked.
func (r *Replicas) muted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.mute))
}

// asks reports whether a list of approvals has a question about that execution.
func asks(text []byte, id string) bool {
	items, err := itemsOf(text, "approvals")
	return err == nil && slices.ContainsFunc(items, func(i item) bool { return i.ID == id })
}

// itemsOf are those of a list.
func itemsOf(text []byte, kind string) (items []item, err error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, err
	}
	var all []json.RawMessage
	if err := json.Unmarshal(whole[kind], &all); err != nil || all == nil {
		return nil, cmp.Or(err, errors.New("it has no such list"))
	}
	for _, one := range all {
		i := item{text: one}
		if err := json.Unmarshal(one, &i); err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	return items, nil
}
