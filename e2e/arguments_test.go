package e2e

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// shellImage has little except the host's shell of that name, as its sh.
func shellImage(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("install %s: %v", name, err)
	}
	tree := newTree()
	tree.programs(t, map[string]string{path: "bin/sh", "/bin/busybox": "bin/sleep"}) // a session's keeper sleeps
	return imageOf(t, tree, v1.Config{Env: []string{"PATH=/bin"}})
}

// programs adds programs of the host with their libraries, and where commands may write.
func (tree *tree) programs(t *testing.T, programs map[string]string) {
	t.Helper()
	for _, dir := range []string{"tmp/", "work/"} {
		tree.add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o777}, nil)
	}
	copies := maps.Clone(programs)
	for path := range programs {
		libraries, _ := exec.Command("ldd", path).Output()
		for _, word := range strings.Fields(string(libraries)) {
			if filepath.IsAbs(word) {
				copies[word] = word[1:]
			}
		}
	}
	for from, to := range copies {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		tree.add(tar.Header{Name: to, Mode: 0o755}, content)
	}
}

// randomArguments are any that a process can have.
func randomArguments(random *rand.Rand) []string {
	pieces := []string{"\n", "\r", "\r\n", "\x1b[2J", "'", "''", `"`, `\`, "\\\n", "$(id)", "`id`", "$1", "-", "--", "-e", "", " ", "*", "#", "!", "~", "a=b", "=", "\xff", "\x80", "\x81\x88", "ü", "\u202e", "\x01", "\x7f", "\t", "plain", "if", "{", "}", "%1", strings.Repeat("x", 9000)}
	args := make([]string, 1+random.IntN(8))
	for i := range args {
		for range random.IntN(5) {
			args[i] += pieces[random.IntN(len(pieces))]
		}
	}
	return args
}

// manyArguments are each within the limit, and together far over the limit of
// one.
func manyArguments(random *rand.Rand) []string {
	args := make([]string, 12)
	for i := range args {
		b := make([]byte, 120_000)
		for at := range b {
			b[at] = byte(' ' + random.IntN(95))
		}
		args[i] = string(b)
	}
	return args
}

// TestArguments runs programs with arguments of any bytes: the command gets them
// unchanged, with every sh of an image, on every way.
func TestArguments(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for name, image := range map[string]string{"busybox": "belljar/base", "dash": shellImage(t, "dash"), "bash": shellImage(t, "bash")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			session := fmt.Sprintf("arguments-%s-%d", name, time.Now().UnixNano())
			t.Cleanup(func() { removeSession(session) })
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			for i := range 4 {
				args := randomArguments(random)
				if i == 3 {
					args = manyArguments(random)
				}
				for _, way := range [][]string{{"--image", image}, {"--image", image, "--session", session}} {
					wantArguments(t, append(way, "--"), args)
				}
				if text := strings.Join(args, ""); strings.ToValidUTF8(text, "") == text {
					wantArguments(t, []string{"--image", image, "-t", "--", "sh", "-c", `stty -opost 2>/dev/null || :; "$@"`, "sh"}, args)
				}
			}
		})
	}
}

// wantArguments prints the arguments with printf, each ended by a byte that none has.
func wantArguments(t *testing.T, flags, args []string) {
	t.Helper()
	const end = "<end>"
	cmd := exec.Command(binary, append(append(append([]string{"run"}, flags...), "printf", "%s"+end), args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	want := strings.Join(args, end) + end
	if same := string(got) == want || strings.Contains(strings.Join(flags, " "), " -t ") && string(got) == strings.ReplaceAll(want, "\n", "\r\n"); err != nil || !same {
		t.Errorf("%q: %q became %q, %v, %s", flags, short(want), short(string(got)), err, short(stderr.String()))
	}
}

func short(text string) string { return text[:min(len(text), 300)] }

// TestWarmArguments delivers such scripts to a warm container.
func TestWarmArguments(t *testing.T) {
	needEngine(t)
	t.Parallel()
	l, stop := warmRunner(t, "", sandbox.PoolSize{Min: 1, Max: 2, MaxAge: time.Hour})
	defer stop()
	for _, script := range []string{"printf '%s|' 'a\nb\r\x1b' '\xff\x80' ''", "printf '%s|' '" + strings.Repeat("y", 200_000) + "'", "printf '%s|' '" + strings.Repeat("y", 200_000) + "\xff'"} {
		want := strings.NewReplacer("printf '%s|' '", "", "' '", "|").Replace(strings.TrimSuffix(script, "'")) + "|"
		r, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: script})
		if got := string(r.Stdout.Head); err != nil || got != want {
			t.Errorf("%q: %v, %q", short(script), err, short(got))
		}
	}
}
