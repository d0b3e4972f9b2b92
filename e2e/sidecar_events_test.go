package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"belljar/sandbox"
)

// stream is server-sent events that are read.
type stream struct {
	answer *http.Response
	lines  *bufio.Reader
}

// follow asks for the events after one.
func (s *attacked) follow(id string, after uint64) (*stream, error) {
	answer, err := s.send(s.t.Context(), http.MethodGet, "/v1/executions/"+id+"/events", "", "Accept", "text/event-stream", "Last-Event-ID", strconv.FormatUint(after, 10))
	if err != nil {
		return nil, err
	}
	return newStream(answer)
}

func newStream(answer *http.Response) (*stream, error) {
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return nil, errors.Join(fmt.Errorf("%s: %.300s", answer.Status, text), err)
	}
	return &stream{answer, bufio.NewReaderSize(answer.Body, 256<<10)}, nil
}

// next is the next event, if all of it came.
func (r *stream) next() (e sandbox.Event, err error) {
	var id string
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				return e, err
			}
		case "":
			if e.Type != "" {
				if id != strconv.FormatUint(e.Seq, 10) {
					return e, fmt.Errorf("the event %d has the id %q", e.Seq, id)
				}
				return e, nil
			}
		}
	}
}

// rest reads the events up to the result.
func (r *stream) rest() (all []sandbox.Event, err error) {
	defer r.answer.Body.Close()
	for {
		e, err := r.next()
		if err != nil {
			return all, err
		}
		all = append(all, e)
		if e.Type == sandbox.EventResult {
			return all, nil
		}
	}
}

// A stream that is cut 50 times, wherever that is in an event, is resumed by
// Last-Event-ID without a lost byte or a doubled one.
func TestSidecarStreamIsCut(t *testing.T) {
	t.Parallel()
	const size, cuts = 100_000_000, 50
	s := besiege(t, "", "limits: {output: 256MiB, result: 64KiB}", "pool: {min: 0, max: 0}")
	id := s.accepts(object{"command": "seq 1 20000000 | head -c " + strconv.Itoa(size)})
	sum, bytes, last := sha256.New(), 0, uint64(0)
	take := func(e sandbox.Event) {
		if last++; e.Seq != last {
			t.Fatalf("event %d has the number %d", last, e.Seq)
		}
		if e.Type == sandbox.EventStdout {
			sum.Write(e.Data)
			bytes += len(e.Data)
		}
	}
	for range cuts {
		events, err := s.follow(id, last)
		if err != nil {
			t.Fatal(err)
		}
		events.lines = bufio.NewReader(io.LimitReader(events.answer.Body, rand.Int64N(2*size/cuts*7/10)))
		for {
			e, err := events.next()
			if err != nil {
				break
			}
			if e.Type == sandbox.EventResult {
				t.Fatal("it ended before it was cut often enough")
			}
			take(e)
		}
		events.answer.Body.Close()
	}
	events, err := s.follow(id, last)
	if err != nil {
		t.Fatal(err)
	}
	list, err := events.rest()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		take(e)
	}
	r := s.end(id).Result
	if r.Stdout.Total != size || bytes != size || hex.EncodeToString(sum.Sum(nil)) != r.Stdout.SHA256 {
		t.Errorf("%d of %d bytes: %s", bytes, r.Stdout.Total, r.Message)
	}
	stored := sha256.New()
	answer, err := s.send(t.Context(), http.MethodGet, "/v1/executions/"+id+"/output", "")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(stored, answer.Body); err != nil || hex.EncodeToString(stored.Sum(nil)) != r.Stdout.SHA256 {
		t.Errorf("what is kept differs: %v", err)
	}
}
