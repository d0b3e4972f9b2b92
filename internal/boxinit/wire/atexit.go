package wire

// AtExitRequest is what the init is asked as soon as a process has ended: the answers need no round trip then. Only List and
// Look can be. An init that does not know this says nothing to it.
type AtExitRequest struct {
	Process  uint32 // as its Start has it
	Requests []Request
}

// Encode appends the request.
func (a *AtExitRequest) Encode(b []byte) []byte {
	b = AppendUint32(AppendUint32(b, a.Process), uint32(len(a.Requests)))
	for _, q := range a.Requests {
		b = appendString(AppendUint32(append(b, byte(q.Kind)), q.ID), string(q.Body))
	}
	return b
}

// DecodeAtExit reads a request, which does not keep b.
func DecodeAtExit(b []byte) (*AtExitRequest, bool) {
	r := reader{rest: b}
	a := &AtExitRequest{Process: r.uint32()}
	for n := r.uint32(); n > 0 && !r.bad; n-- {
		q := Request{Kind: Kind(r.byte()), ID: r.uint32(), Body: []byte(r.string())}
		if q.Kind != List && q.Kind != Look {
			return nil, false
		}
		a.Requests = append(a.Requests, q)
	}
	return a, r.done()
}
