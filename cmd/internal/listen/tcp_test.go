package listen

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTCP(t *testing.T) {
	t.Parallel()
	files := certificates(t)
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"tokens":                 {Config{Address: "tcp://127.0.0.1:0", Tokens: true}, ""},
		"a name":                 {Config{Address: "tcp://localhost:0", Tokens: true}, ""},
		"no tokens":              {Config{Address: "tcp://127.0.0.1:0"}, "without tokens, anyone could call a TCP port (set serve.token_file"},
		"no tokens, TLS":         {Config{Address: "tcp://127.0.0.1:0", Cert: files.cert, Key: files.key}, "without tokens"},
		"no tokens, insecure":    {Config{Address: "tcp://127.0.0.1:0", Insecure: true}, "without tokens"},
		"mTLS":                   {Config{Address: "tcp://127.0.0.1:0", Cert: files.cert, Key: files.key, ClientCA: files.ca}, ""},
		"all addresses":          {Config{Address: "tcp://0.0.0.0:0", Tokens: true}, "serve.listen: 0.0.0.0 is open to other machines without TLS (set serve.tls_cert"},
		"all of IPv6":            {Config{Address: "tcp://[::]:0", Tokens: true}, ":: is open to other machines"},
		"no address":             {Config{Address: "tcp://:0", Tokens: true}, "is open to other machines"},
		"all addresses, TLS":     {Config{Address: "tcp://0.0.0.0:0", Tokens: true, Cert: files.cert, Key: files.key}, ""},
		"all, but insecure":      {Config{Address: "tcp://:0", Tokens: true, Insecure: true}, ""},
		"no port":                {Config{Address: "tcp://127.0.0.1", Tokens: true}, "has no port (write one such as"},
		"an address of no one's": {Config{Address: "tcp://192.0.2.1:1", Tokens: true, Insecure: true}, "cannot assign requested address"},
		"another scheme":         {Config{Address: "http://127.0.0.1:0", Tokens: true}, "is not an address"},
		"a relative path":        {Config{Address: "unix://s"}, "is not an address"},
		"no key":                 {Config{Address: "tcp://127.0.0.1:0", Tokens: true, Cert: files.cert}, "go together"},
		"no certificate":         {Config{Address: "tcp://127.0.0.1:0", Tokens: true, ClientCA: files.ca}, "serve.client_ca needs TLS"},
		"no files":               {Config{Address: "tcp://127.0.0.1:0", Tokens: true, Cert: "/absent", Key: "/absent"}, `the TLS key "/absent" cannot be opened`},
		"wrong key":              {Config{Address: "tcp://127.0.0.1:0", Tokens: true, Cert: files.cert, Key: files.clientKey}, "belong together"},
		"wrong CA":               {Config{Address: "tcp://127.0.0.1:0", Tokens: true, Cert: files.cert, Key: files.key, ClientCA: files.key}, "has no certificate"},
	} {
		test.config.Connections, test.config.Log = 10, quiet
		l, err := Open(t.Context(), test.config)
		if err == nil {
			if l.Addrs()[0].Network() != "tcp" {
				t.Errorf("%s: %v", name, l.Addrs())
			}
			l.Close()
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckInherited(t *testing.T) {
	t.Parallel()
	if err := (Config{}).check(&net.UnixAddr{Name: "@abstract", Net: "unix"}); err == nil || !strings.Contains(err.Error(), "every user") {
		t.Errorf("an abstract name: %v", err)
	}
	if err := (Config{}).check(&net.UDPAddr{}); err == nil {
		t.Error("UDP")
	}
}

// passed runs the test binary as a server, with sockets as systemd passes them.
func passed(t *testing.T, sockets ...interface{ File() (*os.File, error) }) (firstLines []string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	// The number of the process is known only once it runs: the shell becomes the server.
	cmd := exec.CommandContext(ctx, "sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), asChild+"=1", "LISTEN_FDS="+string(rune('0'+len(sockets))))
	for _, s := range sockets {
		file, err := s.File()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewReader(stdout)
	for range len(sockets) + 1 {
		line, err := read.ReadString('\n')
		if err != nil {
			break
		}
		firstLines = append(firstLines, strings.TrimSpace(line))
	}
	return firstLines, func() {
		stdin.Close()
		io.Copy(io.Discard, read)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child: %v", err)
		}
		cancel()
	}
}

func TestSocketActivation(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "s")
	unixSocket, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer unixSocket.Close()
	tcpSocket, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcpSocket.Close()
	lines, end := passed(t, unixSocket, tcpSocket)
	if len(lines) != 3 || lines[0] != "unix "+name || lines[1] != "tcp "+tcpSocket.Addr().String() || lines[2] != `""` {
		t.Errorf("the child's addresses, and what its children would inherit: %q", lines)
	}
	for network, address := range map[string]string{"unix": name, "tcp": tcpSocket.Addr().String()} {
		if text, err := get(t, over(network, address), "http://localhost/"); text != "from the child" || err != nil {
			t.Errorf("%s: %q, %v", network, text, err)
		}
	}
	end()
	if _, err := os.Lstat(name); err != nil {
		t.Errorf("systemd's socket was removed: %v", err)
	}
}

func TestSocketActivationRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "open"), Net: "unix"})
	if err == nil {
		err = os.Chmod(filepath.Join(dir, "open"), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	datagrams, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "datagrams"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	for want, socket := range map[string]interface{ File() (*os.File, error) }{"every user of this machine can connect": open, "pass stream sockets": datagrams} {
		ctx, cancel := context.WithCancel(t.Context())
		file, err := socket.File()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, "sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
		cmd.Env, cmd.ExtraFiles = append(os.Environ(), asChild+"=1", "LISTEN_FDS=1"), []*os.File{file}
		out, err := cmd.Output()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s", err, out)
		}
		file.Close()
		cancel()
	}
}

// It is not parallel: it sets a variable of the process.
func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	os.Unsetenv("NOTIFY_SOCKET")
	if err := errors.Join(Ready(), Reloading(), Stopping()); err != nil {
		t.Errorf("without a service manager: %v", err)
	}
	name := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	os.Setenv("NOTIFY_SOCKET", name)
	for want, tell := range map[string]func() error{"READY=1": Ready, "RELOADING=1\nMONOTONIC_USEC=": Reloading, "STOPPING=1": Stopping} {
		got := make([]byte, 200)
		if err := tell(); err != nil {
			t.Fatal(err)
		}
		n, err := manager.Read(got)
		if err != nil || !strings.HasPrefix(string(got[:n]), want) {
			t.Errorf("%q, %v, not %q", got[:n], err, want)
		}
	}
	manager.Close()
	os.Remove(name)
	if err := Ready(); err == nil {
		t.Error("a service manager that is gone")
	}
}
