package mcpapi

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// promise is what a client brings back with the answer to a question: a requestState. It says
// which execution the question is about, and which question: an execution's ID may name several. The client can read it but not make one: it is
// authenticated with a key of this process.
type promise struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	Expires  int64  `json:"expires"` // in Unix seconds
	Who      string `json:"who"`
	Call     string `json:"call"` // see callSum
}

func newKey() []byte {
	key := make([]byte, sha256.Size)
	rand.Read(key)
	return key
}

// callSum stands for a tool and its arguments.
func callSum(tool string, arguments any) string {
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // they came as JSON
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s", tool, text))
	return hex.EncodeToString(sum[:])
}

func (s *Server) mac(text []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write(text)
	return h.Sum(nil)
}

func (s *Server) seal(p promise) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // there are only strings and numbers
	}
	return base64.RawURLEncoding.EncodeToString(append(s.mac(text), text...))
}

var errForged = errors.New("it is not from this server, or from before it was started again")

func (s *Server) unseal(state string, now time.Time) (p promise, err error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || len(sealed) < sha256.Size || !hmac.Equal(sealed[:sha256.Size], s.mac(sealed[sha256.Size:])) {
		return p, errForged
	}
	if err := json.Unmarshal(sealed[sha256.Size:], &p); err != nil {
		return p, errForged
	}
	if now.Unix() > p.Expires {
		return p, errors.New("the time to answer is over")
	}
	return p, nil
}
