package replicas

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"belljar/cmd/internal/access"
)

// maxChosen is how many chosen IDs a replica remembers the place of.
const maxChosen = 10000

// whoChose is the replica that has an execution whose ID a caller chose, "" if none has it. Where one may have it that does not say so,
// it is an error: a caller takes "not found" for the truth.
func (r *Replicas) whoChose(req *http.Request, kind, id string) (string, error) {
	key, scope := chosenKey(req, id), access.Read
	path := "/v1/executions/" + url.PathEscape(id) + "?result=0"
	if kind == "approvals" { // who answers questions may not see executions
		path, scope = "/v1/approvals", access.Approve
	}
	if _, err := access.Need(req.Context(), scope); err != nil {
		return "", nil // which the caller is told here
	}
	if known := r.chosenBy(key); known != "" {
		return known, nil
	}
	has := func(a answered) bool {
		return a.err == nil && a.status == http.StatusOK && (kind != "approvals" || asks(a.text, id))
	}
	asked := r.living()
	all := r.ask(req.Context(), req.Header, path, asked, has)
	var lost error
	if !slices.ContainsFunc(all, has) { // one that is new may have it. Else the API server is asked for nothing
		lost = r.lookFor(req.Context())
		all = append(all, r.ask(req.Context(), req.Header, path, r.livingBut(asked), has)...)
	}
	if i := slices.IndexFunc(all, has); i >= 0 {
		r.choose(key, all[i].from)
		return all[i].from, nil
	}
	for _, a := range all {
		denied := a.err == nil && (a.status == http.StatusNotFound || kind == "approvals" && a.status == http.StatusOK)
		if !denied && r.peer(a.from) != nil {
			return "", unavailable(fmt.Sprintf("replica %s does not say whether it has execution %.80q", a.from, id), "send the request again later")
		}
	}
	if lost != nil {
		return "", unavailable("which replicas there are cannot be found out now: "+lost.Error(), "send the request again later")
	}
	if r.someReturn() {
		return "", unavailable(fmt.Sprintf("a replica that may have execution %.80q has ended and may start again", id), "send the request again later")
	}
	return "", nil
}

// livingBut are the other replicas that are not among these.
func (r *Replicas) livingBut(asked []*peer) []*peer {
	return slices.DeleteFunc(r.living(), func(p *peer) bool { return slices.Contains(asked, p) })
}

func chosenKey(req *http.Request, id string) string {
	return access.FromContext(req.Context()).Name + " " + id
}

// chosenBy is the replica that had the execution before, if that lives.
func (r *Replicas) chosenBy(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.chosen[key]; r.peers[known] != nil {
		return known
	}
	return ""
}

func (r *Replicas) choose(key, replica string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.chosen) >= maxChosen {
		clear(r.chosen)
	}
	r.chosen[key] = replica
}

// missed forgets where an execution was that is not there any more: another one may have the ID now.
func (r *Replicas) missed(req *http.Request, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.chosen, chosenKey(req, id))
}
