package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"belljar/policy"
	"belljar/sandbox"
)

func TestAudit(t *testing.T) {
	home := t.TempDir()
	c, err := loadNamed(t, "", Options{Env: []string{"HOME=" + home}})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Audit{Enabled: true, File: home + "/.local/state/belljar/audit/audit.jsonl", MaxSize: 64 << 20, Keep: 8, OnError: sandbox.AuditRefuse}); c.Audit != want {
		t.Errorf("%+v, want %+v", c.Audit, want)
	}
	c, err = loadNamed(t, "audit: {enabled: false, file: /srv/audit/a.jsonl, script: true, max_size: 1MiB, keep: 2, on_error: continue}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Audit{File: "/srv/audit/a.jsonl", Script: true, MaxSize: 1 << 20, Keep: 2, OnError: sandbox.AuditContinue}); c.Audit != want {
		t.Errorf("%+v, want %+v", c.Audit, want)
	}
}

func TestBadAudit(t *testing.T) {
	for text, want := range map[string]string{
		"enabled: no":        "enabled: must be true or false, not a string (write one such as true)",
		"enabled: 0":         "enabled: must be true or false, not a number (write one such as true)",
		`enabled: "false"`:   "enabled: must be true or false, not a string (write one such as true)",
		"enabled: False":     `enabled: the value is not true or false (write true or false)`,
		"file: audit.jsonl":  `file: the value is not absolute (write the whole path)`,
		"file: ~/a":          `file: the value is not absolute (write the whole path)`,
		"max_size: 1KiB":     "max_size: 1KiB is too small (at least 64KiB)",
		"max_size: unending": `max_size: the value is not a size (write 512MiB or 2GiB)`,
		"keep: 0":            "keep: 0 is out of range (from 1 to 10000)",
		"on_error: ignore":   `on_error: the value is not valid (write one of refuse, continue)`,
	} {
		if _, err := loadNamed(t, "audit: {"+text+"}", Options{}); errorText(err) != "named.yaml:1: audit."+want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	if _, err := loadNamed(t, "", Options{Env: []string{"BELLJAR_AUDIT_ENABLED=maybe"}}); errorText(err) != `BELLJAR_AUDIT_ENABLED: audit.enabled: the value is not true or false (write true or false)` {
		t.Error(err)
	}
}

// A repository must not say whether what it has run is written down.
func TestAuditIsNotForUntrustedFiles(t *testing.T) {
	for _, text := range []string{"enabled: false", "file: /tmp/x/y", "script: true", "max_size: 64KiB", "keep: 1", "on_error: continue"} {
		var name string
		fmt.Sscanf(text, "%s", &name)
		if _, err := load(t, "audit: {"+text+"}", Options{}); errorText(err) != "sandbox.yaml:1: audit."+name+" "+refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Nothing that is in the audit's directory is ever mounted, whatever is allowed.
func TestAuditIsNeverMounted(t *testing.T) {
	dir := resolve(t.TempDir())
	for _, name := range []string{"home", "data/audit", "real", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		file   string
		env    []string
		denied []string
	}{
		"the default":                 {"", []string{"HOME=" + dir + "/home"}, []string{"/home", "/home/.local/state/belljar", "/home/.local/state/belljar/audit", "/home/.local/state/belljar/audit/audit.jsonl.3"}},
		"a file of its own":           {dir + "/data/audit/a.jsonl", nil, []string{"", "/data", "/data/audit", "/data/audit/a.jsonl", "/data/audit/a.jsonl.head", "/data/audit/sub"}},
		"one that is not there yet":   {dir + "/new/audit/a.jsonl", nil, []string{"", "/new", "/new/audit/a.jsonl"}},
		"one behind a link":           {dir + "/link/a.jsonl", nil, []string{"", "/real", "/real/a.jsonl"}},
		"one that is not written now": {"", []string{"HOME=" + dir + "/home", "BELLJAR_AUDIT_ENABLED=false"}, []string{"/home/.local/state/belljar/audit"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := loadNamed(t, "audit: {file: "+fmt.Sprintf("%q", test.file)+"}\nmounts: {allow: [{source: "+dir+", mode: rw}]}\nprofiles: {a: {mounts: {allow: [{source: "+dir+"}]}}}", Options{Env: test.env})
			if err != nil {
				t.Fatal(err)
			}
			for profile, p := range c.Profiles {
				for _, source := range test.denied {
					if err := p.Policy.CheckMount(sandbox.Mount{Source: dir + source, Target: "/work"}); sandbox.CauseOf(err) != sandbox.CauseDenied {
						t.Errorf("%s: %s: %v", profile, source, err)
					}
				}
				if err := p.Policy.CheckMount(sandbox.Mount{Source: dir + "/tmp", Target: "/work"}); err != nil {
					t.Errorf("%s: %v", profile, err)
				}
			}
		})
	}
}

func TestAuditWithoutStateDirectory(t *testing.T) {
	own := fmt.Sprintf("/belljar-audit-%d/audit.jsonl", os.Getuid())
	if got := auditFile("", ""); got != "/tmp"+own {
		t.Error(got)
	}
	if got := auditFile("", "/other"); got != "/other"+own {
		t.Error(got)
	}
	if os.Getuid() == 0 {
		return // has one
	}
	c, err := loadNamed(t, "", Options{Env: []string{"TMPDIR=/other"}})
	if err != nil {
		t.Fatal(err)
	}
	if rules := c.Profiles["default"].Policy.(policy.Rules); c.Audit.File != "/other"+own || !slices.Contains(rules.Protected, filepath.Dir(c.Audit.File)) {
		t.Errorf("%q, %q", c.Audit.File, rules.Protected)
	}
}
