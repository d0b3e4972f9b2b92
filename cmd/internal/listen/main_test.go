package listen

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asChild makes the test binary a server on the sockets that systemd passes.
const asChild = "BELLJAR_TEST_INHERITED"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// child serves until its stdin ends. It prints its addresses, or why it does not serve.
func child() int {
	l, err := Open(context.Background(), Config{Address: "unix:///not/used", Tokens: true, Connections: 10, Log: quiet})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	server := l.Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "from the child") }))
	done := make(chan error)
	go func() { done <- l.Serve(server) }()
	for _, at := range l.Addrs() {
		fmt.Println(at.Network(), at)
	}
	fmt.Printf("%q\n", os.Getenv("LISTEN_FDS"))
	io.Copy(io.Discard, os.Stdin)
	if server.Close() != nil || <-done != nil {
		return 1
	}
	return 0
}

var quiet = slog.New(slog.DiscardHandler)
