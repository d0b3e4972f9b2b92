package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"

	"github.com/google/go-cmp/cmp"
)

const (
	secret = "0123456789abcdefghij"
	other  = "abcdefghij0123456789/+=="
)

func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func load(t testing.TB, text string) *Tokens {
	t.Helper()
	var tokens Tokens
	if err := tokens.Load(write(t, text)); err != nil {
		t.Fatal(err)
	}
	return &tokens
}

func TestTokens(t *testing.T) {
	t.Parallel()
	tokens := load(t, fmt.Sprintf(`
tokens:
  - {name: ci, token: %s, scopes: [run, read], profiles: [default, build], expires: 2027-01-01T00:00:00Z}
  - {name: ops, sha256: "%X", scopes: [admin], profiles: ["*"]}
  - {name: plain, token: plain-plain-plain-plain, scopes: [read]}
  - {name: node, cert_cn: node.example, scopes: [approve], expires: "2027-01-01T00:00:00+02:00"}
`, secret, sha256.Sum256([]byte(other))))
	before, after := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		token string
		now   time.Time
		want  Identity
		err   error
	}{
		"token":         {secret, before, Identity{"ci", []Scope{Run, Read}, []string{"default", "build"}}, nil},
		"its end":       {secret, after, Identity{Name: "ci"}, errExpired},
		"digest":        {other, after, Identity{"ops", []Scope{Admin}, []string{"*"}}, nil},
		"profile":       {"plain-plain-plain-plain", after, Identity{"plain", []Scope{Read}, []string{"default"}}, nil},
		"prefix":        {secret[:19], before, Identity{}, errUnknown},
		"longer":        {secret + "k", before, Identity{}, errUnknown},
		"other case":    {strings.ToUpper(secret), before, Identity{}, errUnknown},
		"none":          {"", before, Identity{}, errUnknown},
		"a digest":      {fmt.Sprintf("%x", sha256.Sum256([]byte(other))), before, Identity{}, errUnknown},
		"a common name": {"node.example", before, Identity{}, errUnknown},
	} {
		got, err := tokens.bearer(test.token, test.now)
		if diff := cmp.Diff(test.want, got.Identity); diff != "" || !errors.Is(err, test.err) {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	if got, err := tokens.certificate("node.example", before); err != nil || got.Name != "node" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := tokens.certificate("node.example", after); !errors.Is(err, errExpired) {
		t.Error(err)
	}
	for _, cn := range []string{"", "node", "ci"} {
		if got, err := tokens.certificate(cn, before); !errors.Is(err, errUnknown) {
			t.Errorf("%q: %v, %v", cn, got, err)
		}
	}
}

func TestTokenFileRefuses(t *testing.T) {
	t.Parallel()
	entry := func(fields string) string { return "tokens:\n  - {" + fields + "}\n" }
	const good = "name: ci, token: " + secret + ", scopes: [run]"
	for name, test := range map[string]struct{ text, want string }{
		"empty":             {"", "FILE: is empty (write tokens: "},
		"null":              {"~", "FILE:1: the file must be a mapping"},
		"no tokens":         {"{}", "FILE:1: the file has no tokens"},
		"no list":           {"tokens: 7", "FILE:1: tokens must be a list"},
		"empty list":        {"tokens: []", "FILE:1: tokens has 0 items (write 1 to 1000)"},
		"too many":          {"tokens: [" + strings.Repeat("1,", 1001) + "]", "FILE:1: tokens has 1001 items"},
		"not YAML":          {"tokens:\n\t- x", "FILE:2: is not YAML"},
		"two documents":     {entry(good) + "---\ntokens: []", "FILE: has a second YAML document"},
		"key":               {"users: []", "FILE:1: users is not a known key"},
		"odd key":           {"tokens:\n  - {" + secret + ": x}", "FILE:2: tokens[0] has a key that is not a plain name"},
		"alias":             {"tokens: [&a {" + good + "}, *a]", "FILE:1: tokens[1] must be a mapping"},
		"merge":             {"tokens: [{<<: {" + good + "}}]", "FILE:1: tokens[0] has a key that is not a plain name"},
		"unknown field":     {entry(good + ", scope: run"), "FILE:2: tokens[0].scope is not a known key (the keys are name, token,"},
		"duplicate field":   {entry(good + ", name: x"), "FILE:2: tokens[0].name is a duplicate"},
		"no name":           {entry("token: " + secret + ", scopes: [run]"), "FILE:2: tokens[0] has no name"},
		"bad name":          {entry("name: a b, token: " + secret + ", scopes: [run]"), "FILE:2: tokens[0].name is not a name (use at most 64"},
		"number for a name": {entry("name: 7, token: " + secret + ", scopes: [run]"), "FILE:2: tokens[0].name must be a string"},
		"reserved":          {entry("name: local, token: " + secret + ", scopes: [run]"), "FILE:2: tokens[0].name is a name of belljar's own"},
		"no proof":          {entry("name: ci, scopes: [run]"), "FILE:2: tokens[0] has 0 of token, sha256 and cert_cn"},
		"two proofs":        {entry(good + ", cert_cn: x"), "FILE:2: tokens[0] has 2 of token"},
		"short token":       {entry("name: ci, token: " + secret[1:] + ", scopes: [run]"), "FILE:2: tokens[0].token must have 20 to 4096 characters (make one with"},
		"long token":        {entry("name: ci, token: " + strings.Repeat("x", 4097) + ", scopes: [run]"), "must have 20 to 4096"},
		"odd token":         {entry("name: ci, token: \"" + secret + " \\n\", scopes: [run]"), "FILE:2: tokens[0].token has characters"},
		"bad digest":        {entry("name: ci, sha256: " + secret + ", scopes: [run]"), "FILE:2: tokens[0].sha256 is not a SHA-256"},
		"empty cn":          {entry("name: ci, cert_cn: '', scopes: [run]"), "FILE:2: tokens[0].cert_cn must be a string, and not empty"},
		"no scopes":         {entry("name: ci, token: " + secret), "FILE:2: tokens[0] has no scopes"},
		"scope":             {entry("name: ci, token: " + secret + ", scopes: [run, root]"), "FILE:2: tokens[0].scopes[1] is not a scope (write run, read, approve, metrics or admin)"},
		"scopes no list":    {entry("name: ci, token: " + secret + ", scopes: run"), "FILE:2: tokens[0].scopes must be a list"},
		"profile":           {entry(good + ", profiles: [[]]"), "FILE:2: tokens[0].profiles[0] must be a string"},
		"no profiles":       {entry(good + ", profiles: []"), "FILE:2: tokens[0].profiles has 0 items"},
		"date":              {entry(good + ", expires: 2027-01-01"), "FILE:2: tokens[0].expires is not a time (write one such as 2027-01-01T00:00:00Z)"},
		"expires a list":    {entry(good + ", expires: []"), "FILE:2: tokens[0].expires is not a time"},
		"same name":         {entry(good) + "  - {name: ci, token: " + other + ", scopes: [run]}", "FILE:3: tokens[1] has the name of the entry on line 2"},
		"same token":        {entry(good) + fmt.Sprintf("  - {name: b, sha256: %q, scopes: [run]}", fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))), "FILE:3: tokens[1] has the token of the entry on line 2"},
		"same certificate":  {"tokens: [{name: a, cert_cn: x, scopes: [run]}, {name: b, cert_cn: x, scopes: [run]}]", "FILE:1: tokens[1] has the certificate of the entry on line 1"},
	} {
		file := write(t, test.text)
		var tokens Tokens
		err := tokens.Load(file)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), file, "FILE"), test.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), secret[1:]) {
			t.Errorf("%s: the message has the token: %v", name, err)
		}
		if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Hint == "" || e.Cause != sandbox.CauseInvalid {
			t.Errorf("%s: %#v", name, err)
		}
	}
}

// What was valid stays valid while a file is being edited.
func TestReloadKeepsTokens(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens: [{name: ci, token: "+secret+", scopes: [run]}]")
	var tokens Tokens
	if err := tokens.Load(file); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"tokens: [", strings.Repeat("#", 1<<20+1)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := tokens.Load(file); err == nil {
			t.Error("a broken file was loaded")
		}
		if _, err := tokens.bearer(secret, time.Now()); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(file, []byte("tokens: [{name: ci, token: "+other+", scopes: [run]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Load(file); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.bearer(secret, time.Now()); !errors.Is(err, errUnknown) {
		t.Errorf("a token that the file has no more: %v", err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Load(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that all can read: %v", err)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		have []Scope
		can  []Scope
	}{
		{nil, nil},
		{[]Scope{Run}, []Scope{Run, Read}},
		{[]Scope{Read}, []Scope{Read}},
		{[]Scope{Approve}, []Scope{Approve}},
		{[]Scope{Admin}, scopes},
		{[]Scope{""}, nil},
	} {
		var can []Scope
		for _, s := range scopes {
			if (Identity{Scopes: test.have}).Can(s) {
				can = append(can, s)
			}
		}
		if diff := cmp.Diff(test.can, can); diff != "" {
			t.Errorf("%v: %s", test.have, diff)
		}
	}
	for _, test := range []struct {
		have []string
		use  string
		want bool
	}{
		{nil, "", false}, {nil, "default", false}, {[]string{"default"}, "", true}, {[]string{"default"}, "build", false},
		{[]string{"build"}, "", false}, {[]string{"build"}, "build", true}, {[]string{"*"}, "any", true}, {[]string{"b*"}, "build", false},
	} {
		if got := (Identity{Profiles: test.have}).MayUse(test.use); got != test.want {
			t.Errorf("%v may use %q: %v", test.have, test.use, got)
		}
	}
	if !Local.Can(Admin) || !Local.MayUse("any") || FromContext(t.Context()).Can(Read) {
		t.Error("the local identity, or none")
	}
}

func FuzzTokenFile(f *testing.F) {
	for _, seed := range []string{"", "tokens: [{name: ci, token: " + secret + ", scopes: [run]}]", "tokens: [{name: a, cert_cn: x, scopes: [run], expires: 2027-01-01T00:00:00Z}]",
		"tokens: &a [*a]", "? {}", "tokens: [{<<: *x}]", "--- !!binary |\n x", "a: &a\n b: *a"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parse("FILE", text)
		if err == nil && len(all) == 0 {
			t.Error("no tokens, and no error")
		}
		if err != nil {
			if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Hint == "" || !strings.HasPrefix(e.Message, "FILE:") || len(e.Message) > 300 {
				t.Errorf("%#v", err)
			}
			return
		}
		for _, c := range all {
			if c.Name == "" || len(c.Scopes) == 0 || len(c.Profiles) == 0 || (c.cn == "") == (c.digest == [sha256.Size]byte{}) {
				t.Errorf("%+v", c)
			}
		}
	})
}

func FuzzAuthorization(f *testing.F) {
	for _, seed := range []string{"", "Bearer", "Bearer " + secret, "bearer  " + secret + " ", "Basic " + secret, "Bearer " + secret + " x", secret, "Bearer " + secret + "\x00"} {
		f.Add(seed, "")
	}
	f.Add("Bearer "+secret, "Bearer "+secret)
	tokens := load(f, "tokens: [{name: ci, token: "+secret+", scopes: [run]}]")
	f.Fuzz(func(t *testing.T, first, second string) {
		header := []string{first}
		if second != "" {
			header = append(header, second)
		}
		token, ok := bearerToken(header)
		who, err := tokens.bearer(token, time.Now())
		if known := ok && err == nil; known != (len(header) == 1 && strings.EqualFold(first[:min(7, len(first))], "bearer ") && strings.Trim(first[min(7, len(first)):], " ") == secret) {
			t.Errorf("%q: %v %v", header, who, err)
		}
	})
}

// The file in the documentation is one.
func TestDocumentedFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(text), "```yaml\ntokens:")
	file, _, _ = strings.Cut(file, "```")
	all, err := parse("FILE", []byte("tokens:"+file))
	if err != nil || len(all) != 3 {
		t.Errorf("%d tokens, %v", len(all), err)
	}
}

// Once a bug: a token that was taken out of a mounted Secret worked until the process got SIGHUP, which nothing in its image can send.
func TestTokensFollowTheirFile(t *testing.T) {
	one, two := fmt.Sprintf("tokens: [{name: ann, token: %s, scopes: [run]}]", secret), fmt.Sprintf("tokens: [{name: ben, token: %s, scopes: [run]}]", other)
	for name, test := range map[string]struct {
		change func(dir string) error
		want   string // whose tokens are in use
		log    string
	}{
		"nothing":     {func(string) error { return nil }, "ann", ""},
		"in place":    {func(dir string) error { return os.WriteFile(dir+"/1/tokens.yaml", []byte(two), 0o600) }, "ben", "are in use"},
		"a new file":  {func(dir string) error { return replace(dir+"/1/tokens.yaml", two) }, "ben", "are in use"},
		"a kubelet":   {func(dir string) error { return swap(dir, two) }, "ben", "are in use"},
		"invalid":     {func(dir string) error { return swap(dir, "tokens: [") }, "ann", "tokens of before"},
		"empty":       {func(dir string) error { return os.Truncate(dir+"/1/tokens.yaml", 0) }, "ann", "tokens of before"},
		"gone":        {func(dir string) error { return os.Remove(dir + "/1/tokens.yaml") }, "ann", "tokens of before"},
		"not private": {func(dir string) error { return os.Chmod(dir+"/1/tokens.yaml", 0o644) }, "ann", "tokens of before"},
		"half, at first": {func(dir string) error {
			time.AfterFunc(lookPause, func() { os.WriteFile(dir+"/1/tokens.yaml", []byte(two), 0o600) })
			return os.Truncate(dir+"/1/tokens.yaml", 0)
		}, "ben", "are in use"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.Mkdir(dir+"/1", 0o700), os.WriteFile(dir+"/1/tokens.yaml", []byte(one), 0o600), os.Symlink("1", dir+"/..data"), os.Symlink("..data/tokens.yaml", dir+"/tokens.yaml")); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				var tokens Tokens
				if err := tokens.Load(dir + "/tokens.yaml"); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				ctx, stop := context.WithCancel(t.Context())
				var following sync.WaitGroup
				following.Go(func() { tokens.Follow(ctx, dir+"/tokens.yaml", slog.New(slog.NewTextHandler(&log, nil))) })
				time.Sleep(time.Minute + time.Second) // between two looks
				if err := test.change(dir); err != nil {
					t.Fatal(err)
				}
				time.Sleep(4*lookPause + time.Second)
				for token, owner := range map[string]string{secret: "ann", other: "ben"} {
					if _, err := tokens.bearer(token, time.Now()); (err == nil) != (owner == test.want) {
						t.Errorf("%s's token: %v", owner, err)
					}
				}
				time.Sleep(time.Minute)
				stop()
				following.Wait()
				if lines := strings.Count(log.String(), "\n"); !strings.Contains(log.String(), test.log) || test.log == "" && lines > 0 || lines > 1 {
					t.Errorf("%q is not in the log once: %s", test.log, log.String())
				}
			})
		})
	}
}

// Once a bug: a token file that could not be read just when it had changed was not read again, and a revoked token stayed valid.
func TestTokensAreReadAgainAfterAFailure(t *testing.T) {
	for name, failed := range map[string]func(tokens *Tokens, file string) error{
		"followed": func(*Tokens, string) error { return nil },
		"loaded":   func(tokens *Tokens, file string) error { return tokens.Load(file) },
	} {
		t.Run(name, func(t *testing.T) {
			file := t.TempDir() + "/tokens.yaml"
			write := func(name, token string) {
				if err := os.WriteFile(file, fmt.Appendf(nil, "tokens: [{name: %s, token: %s, scopes: [run]}]", name, token), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("ann", secret)
			synctest.Test(t, func(t *testing.T) {
				var tokens Tokens
				if err := tokens.Load(file); err != nil {
					t.Fatal(err)
				}
				write("benjamin", other)
				var limit syscall.Rlimit
				if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
					t.Fatal(err)
				}
				none := limit
				none.Cur = 0 // too many open files
				var log bytes.Buffer
				ctx, stop := context.WithCancel(t.Context())
				var following sync.WaitGroup
				if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
					t.Fatal(err)
				}
				err := failed(&tokens, file)
				following.Go(func() { tokens.Follow(ctx, file, slog.New(slog.NewTextHandler(&log, nil))) })
				time.Sleep(5*lookPause + time.Second)
				if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
					t.Fatal(err)
				}
				if _, known := tokens.bearer(secret, time.Now()); known != nil || (err != nil) != (name == "loaded") {
					t.Errorf("the file was read: %v, %v", known, err)
				}
				time.Sleep(2 * lookPause)
				if _, err := tokens.bearer(other, time.Now()); err != nil {
					t.Errorf("the new token: %v", err)
				}
				if _, err := tokens.bearer(secret, time.Now()); err == nil {
					t.Error("the revoked token is valid")
				}
				stop()
				following.Wait()
				if before := strings.Count(log.String(), "tokens of before"); before > 1 || strings.Count(log.String(), "are in use") != 1 {
					t.Errorf("the log: %s", log.String())
				}
			})
		})
	}
}

// swap changes a mounted Secret as a kubelet does.
func swap(dir, text string) error {
	return errors.Join(os.Mkdir(dir+"/2", 0o700), os.WriteFile(dir+"/2/tokens.yaml", []byte(text), 0o600), os.Symlink("2", dir+"/..tmp"), os.Rename(dir+"/..tmp", dir+"/..data"))
}

func replace(name, text string) error {
	return errors.Join(os.WriteFile(name+".new", []byte(text), 0o600), os.Rename(name+".new", name))
}
