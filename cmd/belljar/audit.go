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

// caller is who asks for the commands of this program, for the audit: the
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
		Short: "Check the record of what was decided about commands, and how they ended",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(auditVerifyCmd(g))
	return cmd
}

const auditVerifyHelp = `Check that the audit's records are one chain: read FILE, or the one that is
configured (audit.file), and all that it was rotated to, and say where a record
was changed, dropped, added or moved.

Each record has the SHA-256 of the one before it, and FILE.head has that of the
last. These hashes have no key: whoever may write all the files, as belljar's own
user may, can make them all anew, and nothing in them shows that. Only a head
that was noted elsewhere does: keep the one that is printed, on another machine,
and give it to --head later.

A warning is what a kill or a full disk leaves; no record is missing or changed.

The exit status is 0 where the chain is whole, 1 where something was found, and
125 where the files cannot be read.`

func auditVerifyCmd(g *globals) *cobra.Command {
	var format, head string
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Find any edit, drop or reorder of the audit's records",
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
				return usagef("--head %q is no SHA-256: give the one that an earlier verify printed", head)
			}
			file, err := auditFile(g, args)
			if err != nil {
				return err
			}
			return verifyAudit(cmd.OutOrStdout(), file, head, format)
		},
	}
	cmd.Flags().StringVar(&head, "head", "", "a head that was noted earlier, as `SHA256`: it must be in the chain")
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

// maxFindings bounds what JSON has, which is written as a whole.
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
			Findings []audit.Finding `json:"findings"` // the first of them
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

// checkAudit sees that a record could be written.
func checkAudit(c *config.Config) finding {
	log := belljar.AuditLog(c)
	if log == nil {
		return warn("remove audit.enabled: false", "what is decided about commands is not written down")
	}
	records, err := log.Check()
	if err == nil {
		return ok("%s can be written, and ends as its head says; %d records (belljar audit verify checks them all)", log.File, records)
	}
	f := problem(err)
	if c.Audit.OnError == sandbox.AuditContinue {
		f.Status = verdictWarn
	}
	return f
}
