package boxinit

import (
	"net"
	"testing"
)

func TestReach(t *testing.T) {
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := server.Addr().String()
	if got := reach(address); got != Open {
		t.Errorf("a server that listens: %s", got)
	}
	server.Close()
	if got := reach(address); got != "connection refused" {
		t.Errorf("one that does not: %s", got)
	}
	if got := reach(":"); got != "no address" {
		t.Errorf("without a server: %s", got)
	}
}

func TestTried(t *testing.T) {
	got := tried("Name:\tx\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n", "         0      65536      65536\n", "no answer; or so")
	if want := (Tried{true, true, "0000000000000000", true, "no answer; or so"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if again, ok := ParseTried(got.String()); !ok || again != got {
		t.Errorf("%+v, %v", again, ok)
	}
	if _, ok := ParseTried("panic: no"); ok {
		t.Error("any text is read")
	}
	for _, hosts := range []string{"         0          0 4294967295\n", "0 0 65536\n", ""} {
		if OwnUsers(hosts) {
			t.Errorf("%q is a user namespace", hosts)
		}
	}
}
