package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"belljar/cmd/internal/httpapi"
	"belljar/config"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write the generated files")

// TestGenerated holds the files that are made from the code to the code.
func TestGenerated(t *testing.T) {
	api, err := httpapi.Document("1")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"../../docs/openapi.yaml":        api,
		"../../docs/cli.md":              cliDocs(t),
		"../../docs/sandbox.schema.json": config.Schema(),
	}
	for name, want := range files {
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is out of date: make generate\n%s", name, diff)
		}
	}
}

// cliDocs is all help in one page.
func cliDocs(t *testing.T) []byte {
	t.Helper()
	var page bytes.Buffer
	page.WriteString("# The command line\n\nMade from `--help` by `make generate`.\n\n")
	root := rootCmd()
	root.InitDefaultCompletionCmd()
	writeCommand(t, &page, root)
	return page.Bytes()
}

func writeCommand(t *testing.T, page *bytes.Buffer, cmd *cobra.Command) {
	t.Helper()
	cmd.DisableAutoGenTag = true
	var text bytes.Buffer
	if err := doc.GenMarkdownCustom(cmd, &text, func(file string) string {
		return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
	}); err != nil {
		t.Fatal(err)
	}
	page.Write(text.Bytes())
	for _, sub := range cmd.Commands() {
		if sub.Name() == "help" || sub.Hidden || cmd.Name() == "completion" {
			continue
		}
		writeCommand(t, page, sub)
	}
}
