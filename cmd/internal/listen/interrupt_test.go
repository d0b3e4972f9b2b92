package listen

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// Who gives up the Read of a body is not undone by the body's own deadline. Once a bug: it set that a
// moment later, and an upload to a session that had ended waited for its client.
func TestGiveUpRead(t *testing.T) {
	for name, of := range map[string]string{"before it": "before", "during it": "during"} {
		var read chan error
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if of == "before" {
				rc.SetReadDeadline(time.Now())
			} else {
				go func() {
					synctest.Wait()
					rc.SetReadDeadline(time.Now())
				}()
			}
			begin := time.Now()
			_, err := r.Body.Read(make([]byte, 1))
			if time.Since(begin) > 0 {
				err = errors.New("it took its time")
			}
			rc.SetReadDeadline(time.Time{})
			read <- err
			io.Copy(io.Discard, r.Body)
		})
		t.Run(name, func(t *testing.T) {
			withClock(t, handler, func(t *testing.T, dial func() net.Conn) {
				read = make(chan error, 1)
				conn := dial()
				defer conn.Close()
				io.WriteString(conn, post)
				if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
					if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
						t.Error(err)
					}
				}
				go conn.Write(make([]byte, 102400))
				one := make([]byte, 1) // it can be read again
				if _, err := conn.Read(one); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
