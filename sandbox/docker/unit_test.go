package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseTop(t *testing.T) {
	p, tasks, ok := parseTop([]string{"4711", "4700", "4711", "65534", "nobody", "Ss+", "5", "3", "1376", "sleep", "100"})
	want := sandbox.Process{HostPID: 4711, UID: 65534, User: "nobody", State: "S", ElapsedSeconds: 3, RSSBytes: 1376 << 10, Command: "sleep 100"}
	if diff := cmp.Diff(want, p); diff != "" || tasks != 5 || !ok {
		t.Errorf("%s, %d threads, %v", diff, tasks, ok)
	}
	for name, row := range map[string][]string{
		"zombie": {"1", "1", "1", "0", "root", "Z", "1", "0", "0", "[sh] <defunct>"},
		"short":  {"1", "1"},
		"empty":  nil,
	} {
		if _, _, ok := parseTop(row); ok {
			t.Errorf("%s counts", name)
		}
	}
	if p, _, ok := parseTop([]string{"1", "1", "1", "5", "u", "", "", "", "", "x"}); !ok || p.State != "" {
		t.Errorf("empty fields: %+v, %v", p, ok)
	}
}

func TestHumanSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1000: "1000 bytes", 64 << 20: "64 MiB", 1536: "1.5 KiB"} {
		if got := humanSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		" a\n\tb  c\r\n":             "a b c",
		"\x1b[31mred\x1b[0m\x7f\x00": "[31mred [0m",
		"caf\u00e9 \xff":             "caf\u00e9 ?",
	} {
		if got := failure.OneLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestResolveHost(t *testing.T) {
	contexts := map[string]string{
		"remote": `{"Endpoints":{"docker":{"Host":"tcp://10.0.0.1:2375"}}}`,
		"shell":  `{"Endpoints":{"docker":{"Host":"ssh://host"}}}`,
		"empty":  `{}`,
		"broken": `{`,
	}
	for _, test := range []struct {
		name               string
		host, env, context string
		config             string // the current context in config.json
		want, fails        string
	}{
		{name: "nothing", want: "unix:///var/run/docker.sock"},
		{name: "asked", host: "tcp://a:1", env: "tcp://b:2", want: "tcp://a:1"},
		{name: "environment", env: "tcp://b:2", context: "remote", want: "tcp://b:2"},
		{name: "DOCKER_CONTEXT", context: "remote", config: "shell", want: "tcp://10.0.0.1:2375"},
		{name: "current context", config: "remote", want: "tcp://10.0.0.1:2375"},
		{name: "default context", config: "default", want: "unix:///var/run/docker.sock"},
		{name: "ssh", context: "shell", want: "ssh://host"},
		{name: "no endpoint", context: "empty", fails: `has the address ""`},
		{name: "unknown", context: "gone", fails: `cannot read docker context "gone"`},
		{name: "broken context", context: "broken", fails: `cannot read docker context "broken"`},
		{name: "odd name", context: "../../etc", fails: "cannot read"},
		{name: "broken config", config: "\x00", fails: "reading "},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("DOCKER_CONFIG", dir)
			t.Setenv("DOCKER_HOST", test.env)
			t.Setenv("DOCKER_CONTEXT", test.context)
			if test.config != "" {
				writeFile(t, filepath.Join(dir, "config.json"), `{"currentContext":"`+test.config+`"}`)
			}
			for name, meta := range contexts {
				digest := sha256.Sum256([]byte(name))
				writeFile(t, filepath.Join(dir, "contexts", "meta", hex.EncodeToString(digest[:]), "meta.json"), meta)
			}
			got, err := resolve(test.host)
			var e *sandbox.Error
			switch {
			case test.fails == "" && (err != nil || got.host != test.want):
				t.Errorf("%q, error %v, want %q", got.host, err, test.want)
			case test.fails != "" && (!errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), test.fails)):
				t.Errorf("error %v, want %s", err, test.fails)
			}
		})
	}
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Root is let in everywhere, so the error is made as the client makes it.
func TestNoPermission(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", unix.EACCES)}
	err := connectError(fmt.Errorf("permission denied while trying to connect: %w", dial), "unix:///run/x.sock")
	if !errors.Is(dial, fs.ErrPermission) || sandbox.CauseOf(err) != sandbox.CauseEngine ||
		!strings.HasPrefix(err.Error(), "no permission to use the engine's socket unix:///run/x.sock (run as root or as a member of the docker group") {
		t.Error(err)
	}
}
