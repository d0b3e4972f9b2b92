package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goBlock is code in a guide.
var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// around is what a guide's code that is no whole program stands in.
const around = `package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"belljar"
	"belljar/config"
	"belljar/images"
	"belljar/sandbox"
	"belljar/sandbox/client"
	"belljar/sandbox/docker"
	"belljar/sandbox/local"
)

var _ = []any{context.Background, errors.New, fmt.Println, os.Exit, time.Now, belljar.Open, config.Load, images.Base, sandbox.Run, client.New, docker.Connect, local.New}

func main() {}
`

// fragment stands in a function of its own, in which what it is about is there.
const fragment = `
func code%d(ctx context.Context, runner *belljar.Runner, approver sandbox.Approver) error {
	{
%s	}
%s}
`

// The code of the guides compiles. What a fragment only shows is used.
func TestGoOfGuides(t *testing.T) {
	t.Parallel()
	guides, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	fragments := around
	for _, guide := range append(guides, "../README.md") {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for i, found := range goBlock.FindAllSubmatch(text, -1) {
			block := string(found[1])
			if !strings.HasPrefix(block, "package ") {
				fragments += fmt.Sprintf("\n// %s, block %d of Go", filepath.Base(guide), i+1) + function(len(fragments), block)
			} else if err := vet(t.TempDir(), block); err != nil {
				t.Errorf("%s, block %d of Go: %v", filepath.Base(guide), i+1, err)
			}
		}
	}
	if fragments == around {
		t.Error("no guide has a fragment of Go")
	}
	if err := vet(t.TempDir(), fragments); err != nil {
		t.Errorf("%v in\n%s", err, fragments)
	}
	bad := function(1, "runner.NoSuchMethod()\n") + function(2, "fmt.Printf(\"%d\", \"text\")\n")
	if err := vet(t.TempDir(), around+bad); err == nil {
		t.Errorf("taken for good: %s", bad)
	}
}

var (
	defines = regexp.MustCompile(`(?m)^(\w+)(, err)? := `)
	returns = regexp.MustCompile(`(?m)^return .*\n\z`)
)

func function(n int, block string) string {
	if returns.MatchString(block) {
		return fmt.Sprintf(fragment, n, block, "")
	}
	end := "return nil\n"
	for _, name := range defines.FindAllStringSubmatch(block, -1) {
		block += "_ = " + name[1] + "\n"
		if name[2] != "" {
			block += "_ = err\n"
		}
	}
	return fmt.Sprintf(fragment, n, block, end)
}

// vet checks a program as one of this module's, without a file in it.
func vet(dir, program string) error {
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		return err
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "docs", "main.go"): file}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		return err
	}
	cmd := withoutCgo("vet", "-overlay", filepath.Join(dir, "overlay.json"), "./docs")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
