package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"belljar"
	"belljar/eval/receipt"
	"belljar/eval/report"
	evalrun "belljar/eval/run"
	"belljar/sandbox"

	"github.com/spf13/pflag"
)

// evalOutput is what comes out of a run in addition to its directory.
type evalOutput struct {
	junit, html   string
	sign, receipt string
}

func (o *evalOutput) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.junit, "junit", "", "write JUnit XML to `FILE`")
	flags.StringVar(&o.html, "html", "", "write a page of HTML to `FILE`")
}

// signFlags are for what made the results itself, and knows that they are true.
func (o *evalOutput) signFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.sign, "sign", "", "sign a receipt with this Ed25519 private key, a PEM `FILE`")
	flags.StringVar(&o.receipt, "receipt", "", "write the receipt to `FILE` (default: receipt.json in the run's directory)")
}

// check finds out before a long run whether its end could fail.
func (o *evalOutput) check() error {
	if o.receipt != "" && o.sign == "" {
		return usagef("--receipt needs a key: use --sign")
	}
	if o.sign == "" {
		return nil
	}
	_, err := receipt.ReadPrivateKey(o.sign)
	return err
}

// write shows how the run ended, and writes the files.
func (o *evalOutput) write(ctx context.Context, g *globals, out io.Writer, format, dir string) error {
	d, r, err := readRun(dir)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		to   func(io.Writer) error
	}{{o.junit, r.JUnit}, {o.html, r.HTML}} {
		if file.name != "" {
			err = errors.Join(err, writeWhole(file.name, file.to))
		}
	}
	if o.sign != "" {
		err = errors.Join(err, o.signed(ctx, g, d))
	}
	return errors.Join(err, writeReport(out, format, r))
}

func readRun(dir string) (*evalrun.Dir, *report.Report, error) {
	d, err := evalrun.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	results, err := d.Results()
	if err != nil {
		return nil, nil, err
	}
	return d, report.New(d.Run, results), nil
}

func writeReport(out io.Writer, format string, r *report.Report) error {
	if format != "json" {
		_, err := io.WriteString(out, r.Text())
		return err
	}
	type task struct {
		ID      string `json:"id"`
		Passed  int    `json:"passed"`
		Counted int    `json:"counted"`
		Flaky   bool   `json:"flaky"`
		Sealed  bool   `json:"sealed"`
	}
	tasks, results := []task{}, []evalrun.Result{}
	for _, t := range r.Tasks {
		tasks = append(tasks, task{t.ID, t.Passed, t.Counts, t.Flaky, t.Sealed})
		results = append(results, t.Trials...)
	}
	return writeJSON(out, struct {
		Run     string           `json:"run"`
		Summary report.Summary   `json:"summary"`
		Tasks   []task           `json:"tasks"`
		Wrong   []string         `json:"wrong"` // what belljar would not have written
		Results []evalrun.Result `json:"results"`
	}{r.Run.ID, r.Summary, tasks, append([]string{}, r.Wrong...), results})
}

// signed writes the receipt.
func (o *evalOutput) signed(ctx context.Context, g *globals, d *evalrun.Dir) error {
	key, err := receipt.ReadPrivateKey(o.sign)
	if err != nil {
		return err
	}
	c, err := g.loadConfig(nil)
	if err != nil {
		return err
	}
	var with receipt.Options
	if with.Program, err = ownDigest(); err != nil {
		return err
	}
	if log := belljar.AuditLog(c); log != nil {
		if _, with.Audit, err = log.Head(); err != nil {
			return err
		}
	}
	statement, err := receipt.Make(d, with)
	if err != nil {
		return err
	}
	name := o.receipt
	if name == "" {
		name = filepath.Join(d.Path, "receipt.json")
	}
	if err := statement.FollowsFile(ctx, name, key.Public().(ed25519.PublicKey)); err != nil {
		return err
	}
	text, err := statement.Sign(ctx, key)
	if err != nil {
		return err
	}
	return writeWhole(name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// ownDigest is the SHA-256 of this program.
func ownDigest() (string, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// writeWhole writes a file that is never seen in part: a new one replaces it. What is no
// regular file, such as /dev/stdout, is written to.
func writeWhole(name string, write func(io.Writer) error) error {
	if about, err := os.Stat(name); err == nil && !about.Mode().IsRegular() {
		return failedWrite(name, writeTo(name, os.O_WRONLY, write))
	}
	temp := fmt.Sprintf("%s.%d.new", name, os.Getpid())
	err := writeTo(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, write)
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		os.Remove(temp)
	}
	return failedWrite(name, err)
}

func writeTo(name string, flags int, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, flags, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func failedWrite(name string, err error) error {
	if err == nil {
		return nil
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("writing %q", name), Err: err, Hint: "name a file in a directory that exists and is writable"}
}
