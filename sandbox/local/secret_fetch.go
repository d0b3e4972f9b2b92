package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"belljar/internal/hostprog"
	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
	"belljar/sandbox/internal/mask"
)

const (
	maxSecret     = 64 << 10
	secretTimeout = 10 * time.Second
)

// secretVariable is the variable that holds the secret's value, "" if none does.
func secretVariable(s sandbox.Secret) string {
	if s.From == sandbox.SecretEnv && s.Variable == "" {
		return s.Name
	}
	return s.Variable
}

// grantedSecrets are those that a command gets.
func grantedSecrets(c sandbox.Command, p sandbox.Profile, callerEnv []string, g sandbox.Grant) ([]sandbox.Secret, error) {
	var list []sandbox.Secret
	for _, name := range slices.Compact(slices.Sorted(slices.Values(g.Secrets))) {
		i := slices.IndexFunc(p.Secrets, func(s sandbox.Secret) bool { return s.Name == name })
		if i < 0 {
			return nil, sandbox.Invalid("define it in sandbox.yaml under secrets, or leave it out of the rule", "a policy rule grants secret %s, which profile %q does not have", strconv.QuoteToASCII(name), c.Profile)
		}
		if err := names.CheckSecret(name); err != nil {
			return nil, err
		}
		list = append(list, p.Secrets[i])
	}
	if len(list) > 0 && c.TTY != nil {
		return nil, sandbox.Invalid("leave out -t", "a command with a terminal cannot have secrets: its screen cannot be masked")
	}
	if len(list) > 0 && len(c.Files) > 0 {
		return nil, &sandbox.Error{Cause: sandbox.CauseDenied, Message: "files may decide who gets the command's secrets", Hint: "leave out the files, or mount them"}
	}
	if len(list) > 0 {
		return list, checkSteering(p, callerEnv, "who gets the command's secrets")
	}
	return nil, nil
}

// checkSteering refuses variables of the caller that would run other programs than those
// that rules name, or send secrets elsewhere.
func checkSteering(p sandbox.Profile, callerEnv []string, what string) error {
	for _, kv := range callerEnv {
		name := nameOf(kv)
		if p.Policy.Steers(name) && !p.Policy.AllowEnv(name) {
			return &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("variable %s may decide %s", strconv.QuoteToASCII(name), what),
				Hint: "leave it out, or name it in env.allow of sandbox.yaml"}
		}
	}
	return nil
}

// checkCharset refuses a script with characters that are not ASCII where a variable's value
// chooses a charset in which shells read another script than the policy did.
func checkCharset(c sandbox.Command, p sandbox.Policy) error {
	if !strings.ContainsFunc(c.Script, func(r rune) bool { return r > unicode.MaxASCII }) {
		return nil
	}
	for _, kv := range c.Env {
		if name := nameOf(kv); p.Steers(kv) && !p.Steers(name) {
			return &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("variable %s chooses a charset in which a shell may read the script in another way", strconv.QuoteToASCII(name)),
				Hint: "use a locale with UTF-8, such as C.UTF-8, or write the script in ASCII"}
		}
	}
	return nil
}

// fetch gets the values, as "NAME=value". Its errors never contain a value.
func (l *Local) fetch(ctx context.Context, list []sandbox.Secret) (all []string, err error) {
	for _, s := range list {
		var value string
		if err = acquire(ctx, l.upkeep.fetches); err == nil {
			value, err = secretValue(ctx, s)
			<-l.upkeep.fetches
		}
		if ctx.Err() != nil {
			return nil, &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the command's secrets were fetched"}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s.Name+"="+value)
	}
	return all, nil
}

func secretValue(ctx context.Context, s sandbox.Secret) (string, error) {
	failed := &sandbox.Error{Cause: sandbox.CauseEngine, Message: "fetching secret " + strconv.QuoteToASCII(s.Name)}
	var text string
	switch s.From {
	case sandbox.SecretEnv:
		var set bool
		if text, set = os.LookupEnv(secretVariable(s)); !set {
			failed.Err, failed.Hint = fmt.Errorf("variable %s is not set", strconv.QuoteToASCII(secretVariable(s))), "set it in belljar's environment"
		}
	case sandbox.SecretFile:
		text, failed.Err = readSecret(ctx, s.File)
		failed.Hint = "name a file that belljar can read"
	case sandbox.SecretCommand:
		text, failed.Err = runForSecret(ctx, s.Command)
		failed.Hint = "run it by hand; its output is hidden because it may contain the secret"
	default:
		failed.Err, failed.Hint = fmt.Errorf("source %q is unknown", s.From), "use env, file or command"
	}
	if failed.Err != nil {
		return "", failed
	}
	if line, ended := strings.CutSuffix(text, "\n"); ended {
		text = strings.TrimSuffix(line, "\r")
	}
	return text, checkSecret(s, text)
}

// checkSecret refuses values that cannot be delivered as they are, or not be masked.
func checkSecret(s sandbox.Secret, value string) error {
	refused := func(hint, what string) error {
		return sandbox.Invalid(hint, "secret %s %s", strconv.QuoteToASCII(s.Name), what)
	}
	switch {
	case len(value) < mask.MinSecret:
		return refused("use a longer one", fmt.Sprintf("is shorter than %d bytes: masking it would garble ordinary output", mask.MinSecret))
	case len(value) > maxSecret:
		return refused("encrypt the data and use the key as the secret", "is longer than "+sandbox.FormatSize(maxSecret))
	case strings.ContainsRune(value, 0):
		return refused("encode it, as in base64", "has a NUL byte, which an environment variable cannot contain")
	case !utf8.ValidString(value):
		return refused("encode it, as in base64", "is not valid UTF-8")
	}
	return nil
}

// readSecret reads a file up to one byte more than a secret may have. A file that
// does not answer, as on a server that is gone, gets no more time than a program:
// the read is then left to end by itself, since nothing can end it.
func readSecret(ctx context.Context, name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", fmt.Errorf("%q is not absolute", name)
	}
	late, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	type answer struct {
		text string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		text, err := readRegular(name, maxSecret+int64(len("\r\n"))+1)
		read <- answer{text, err}
	}()
	select {
	case a := <-read:
		return a.text, a.err
	case <-late.Done():
		return "", fmt.Errorf("reading %q: not finished after %v", name, secretTimeout)
	}
}

// readRegular checks the file that it opened: between a check and an open, a FIFO could
// replace it, and without O_NONBLOCK opening that waits for a writer.
func readRegular(name string, most int64) (string, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%q is not a regular file", name)
	}
	text, err := io.ReadAll(io.LimitReader(file, most))
	return string(text), err
}

// runForSecret runs a program as Summarize does. Errors contain nothing that it
// writes: some programs print what they failed on.
func runForSecret(ctx context.Context, command []string) (string, error) {
	if len(command) == 0 {
		return "", errors.New("the command is empty")
	}
	late, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	stdout := &secretBuffer{}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout = stdout
	err := hostprog.Run(late, cmd)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not finished after %v", secretTimeout)
	}
	if err != nil {
		return "", fmt.Errorf("running %q: %w", command[0], err)
	}
	return string(stdout.kept), nil
}

// secretBuffer keeps as much as readSecret reads.
type secretBuffer struct{ kept []byte }

func (b *secretBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), maxSecret+len("\r\n")+1-len(b.kept))]...)
	return len(p), nil
}

// withSecrets is a command with its secrets in its environment.
func withSecrets(c sandbox.Command, secrets []string) sandbox.Command {
	if len(secrets) == 0 {
		return c
	}
	given := func(kv string) bool {
		return slices.ContainsFunc(secrets, func(secret string) bool { return nameOf(secret) == nameOf(kv) })
	}
	c.Env = append(slices.DeleteFunc(slices.Clone(c.Env), given), secrets...)
	return c
}

func nameOf(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}

// checkDelivery refuses what a gate cannot pass on: a command with secrets does not go
// through the engine's API but through the stdin of a shell.
func checkDelivery(c sandbox.Command, secrets []string) error {
	all := withSecrets(c, secrets)
	if err := checkArguments(all); err != nil || !gate.Required(c, secrets) {
		return err
	}
	if c.TTY != nil {
		return sandbox.Invalid("leave out -t, or put it in a file and mount it", "a command with a terminal cannot contain bytes that are not valid UTF-8")
	}
	c = all
	if _, ok := gate.Line(c, gate.MaxLine); ok {
		return nil
	}
	for _, kv := range c.Env {
		if name := nameOf(kv); !names.Exportable(name) {
			return sandbox.Invalid("leave it out", "variable %s cannot be combined with secrets or bytes that are not valid UTF-8: a shell sets these, and it cannot set this one", strconv.QuoteToASCII(name))
		}
	}
	return sandbox.Invalid("put the script into a file that is mounted, or on stdin", "the command, its variables and its secrets are, when quoted, over the limit of %s", sandbox.FormatSize(gate.MaxLine))
}
