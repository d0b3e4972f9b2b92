package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"belljar"
	"belljar/audit"
	"belljar/config"
	"belljar/sandbox"
	"belljar/view"

	"github.com/spf13/cobra"
)

// caller is who runs this program, for the audit log: the
// account, whatever the environment calls it.
func caller() sandbox.Caller {
	uid := strconv.Itoa(syscall.Getuid())
	c := sandbox.Caller{FrontEnd: "cli", User: "uid " + uid}
	if account, err := user.LookupId(uid); err == nil {
		c.User = account.Username
	}
	return c
}

func auditCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Check the audit log: decisions about commands, and how commands ended",
	}
	cmd.AddCommand(auditVerifyCmd(g))
	return cmd
}

const auditVerifyHelp = `Check that the audit log is one unbroken chain of records. The command reads FILE
(default: audit.file) and its rotated files, and reports every record that was
changed, removed, added or moved.

Each record contains the SHA-256 of the record before it, and FILE.head contains
that of the last one. The hashes have no key: anyone who can write all the files,
such as belljar's own user, can create a new chain that passes this check. To
detect that, store the head that this command prints on another machine, and pass
it to --head later.

A warning reports traces of a kill or a full disk: no record is missing or changed.

The exit status is 0 if the chain is intact, 1 if something was found, and 125 if
the files cannot be read.`

func auditVerifyCmd(g *globals) *cobra.Command {
	var format, head string
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Detect changed, removed or reordered records in the audit log",
		Long:  auditVerifyHelp,
		Example: `  belljar audit verify
  belljar audit verify --head sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  belljar audit verify --format json old/audit.jsonl | jq .findings`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := textOrJSON(format); err != nil {
				return err
			}
			if sum, err := hex.DecodeString(strings.TrimPrefix(head, "sha256:")); head != "" && (err != nil || len(sum) != 32) {
				return usagef("--head %q is not a SHA-256: use the head that an earlier verify printed", head)
			}
			file, err := auditFile(g, args)
			if err != nil {
				return err
			}
			return verifyAudit(cmd.OutOrStdout(), file, head, format)
		},
	}
	cmd.Flags().StringVar(&head, "head", "", "the `SHA256` of an earlier head: the chain must contain it")
	formatFlag(cmd, &format)
	return cmd
}

func auditFile(g *globals, args []string) (string, error) {
	if len(args) == 1 {
		file, err := filepath.Abs(args[0])
		if err != nil {
			return "", fmt.Errorf("finding %q: %w", args[0], err)
		}
		return file, nil
	}
	c, err := g.loadConfig(nil)
	if err != nil {
		return "", err
	}
	return c.Audit.File, nil
}

// maxFindings bounds the findings in JSON, which is written as a whole.
const maxFindings = 1000

func verifyAudit(out io.Writer, file, head, format string) error {
	findings := []audit.Finding{}
	s, err := audit.Verify(file, head, func(f audit.Finding) {
		switch {
		case format == "json" && len(findings) < maxFindings:
			findings = append(findings, f)
		case format == "text" && f.Warning:
			fmt.Fprintln(out, "warning: "+view.SafeLine(f.String()))
		case format == "text":
			fmt.Fprintln(out, view.SafeLine(f.String()))
		}
	})
	if err != nil {
		return err
	}
	if format == "json" {
		err = writeJSON(out, struct {
			OK bool `json:"ok"`
			audit.Summary
			Findings []audit.Finding `json:"findings"` // the first ones
		}{s.Bad == 0, s, findings})
	} else {
		_, err = fmt.Fprintln(out, auditSummary(s))
	}
	if err == nil && s.Bad > 0 {
		return exitError(1)
	}
	return err
}

func auditSummary(s audit.Summary) string {
	what := "ok"
	if s.Bad > 0 {
		what = fmt.Sprintf("not ok (%d found)", s.Bad)
	}
	if s.Records == 0 {
		return what + ": no records"
	}
	return fmt.Sprintf("%s: %d records, seq %d to %d, head sha256:%s", what, s.Records, s.First, s.Last, s.Head)
}

// checkAudit checks that a record could be written.
func checkAudit(c *config.Config) finding {
	log := belljar.AuditLog(c)
	if log == nil {
		return warn("remove audit.enabled: false", "decisions about commands are not recorded")
	}
	records, err := log.Check()
	if err == nil {
		return ok("%s is writable and ends with the record that its head names; %d records (belljar audit verify checks all of them)", log.File, records)
	}
	f := problem(err, "look for what is wrong with it: belljar audit verify")
	if c.Audit.OnError == sandbox.AuditContinue {
		f.Status = verdictWarn
	}
	return f
}
