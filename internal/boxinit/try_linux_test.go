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
	const debian = "Linux version 6.1.0-31-amd64 (debian-kernel@lists.debian.org) #1 SMP PREEMPT_DYNAMIC Debian 6.1.128-1 (2025-02-07)\n"
	got := tried("Name:\tx\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n", "         0      65536      65536\n", debian, "no answer; or so")
	if want := (Tried{true, true, "0000000000000000", true, false, "no answer; or so"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if again, ok := ParseTried(got.String()); !ok || again != got {
		t.Errorf("%+v, %v", again, ok)
	}
	if _, ok := ParseTried("panic: no"); ok {
		t.Error("any text is read")
	}
	for _, version := range []string{"Linux version 4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016\n", "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n"} {
		got := tried("CapBnd:\t0000000000000000\nSeccomp:\t0\n", "", version, Open)
		if again, ok := ParseTried(got.String()); !got.GVisor || got.Seccomp || !ok || again != got {
			t.Errorf("%q: %+v", version, got)
		}
	}
	for _, hosts := range []string{"         0          0 4294967295\n", "0 0 65536\n", ""} {
		if OwnUsers(hosts) {
			t.Errorf("%q is a user namespace", hosts)
		}
	}
}
