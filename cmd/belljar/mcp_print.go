package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
)

// mcpClient is a program that starts belljar mcp, and how its configuration is written.
type mcpClient struct {
	name, file string // the file is for people
	dir        string // in place of the directory to serve; "" is its path
	write      func(entry mcpEntry) string
}

// mcpEntry starts the server.
type mcpEntry struct {
	command string
	args    []string
}

var mcpClients = []mcpClient{
	{name: "claude", file: ".mcp.json in the project's directory", write: jsonEntry("mcpServers", "stdio")},
	{name: "codex", file: "~/.codex/config.toml", write: tomlEntry},
	{name: "gemini", file: ".gemini/settings.json in the project's directory", write: jsonEntry("mcpServers", "")},
	{name: "vscode", file: ".vscode/mcp.json in the project's directory", dir: "${workspaceFolder}", write: jsonEntry("servers", "stdio")},
}

func mcpClientNames() (names []string) {
	for _, c := range mcpClients {
		names = append(names, c.name)
	}
	return names
}

// printConfig prints what to paste, and says on stderr where.
func (f *mcpFlags) printConfig(g *globals, stdout, stderr io.Writer, dir string) error {
	for _, client := range mcpClients {
		if client.name != f.client {
			continue
		}
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding belljar itself: %w", err)
		}
		config := ""
		if g.configPath != "" {
			if config, err = filepath.Abs(g.configPath); err != nil {
				return err
			}
		}
		text, err := client.config(self, dir, f.arguments(config))
		if err != nil {
			return err
		}
		if _, err := io.WriteString(stdout, text); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "belljar: paste this into %s\n", client.file)
		return nil
	}
	return usagef("--print-config %q is unknown: use %s", f.client, strings.Join(mcpClientNames(), ", "))
}

// arguments are the flags that the client passes on.
func (f *mcpFlags) arguments(config string) []string {
	args := []string{"mcp"}
	if config != "" {
		args = append(args, "--config", config)
	}
	if f.profile != sandbox.DefaultProfile {
		args = append(args, "--profile", f.profile)
	}
	if f.image != "" {
		args = append(args, "--image", f.image)
	}
	if f.write {
		args = append(args, "--write")
	}
	return args
}

// config names the directory in the arguments: clients start servers in directories of
// their own choice, and some ignore a cwd in their configuration.
func (c mcpClient) config(self, dir string, args []string) (string, error) {
	if c.dir != "" {
		dir = c.dir
	}
	args = append(args, "--dir", dir)
	for _, text := range append(args, self) {
		if !utf8.ValidString(text) {
			return "", usagef("%q is not valid UTF-8, so it cannot be written in a configuration: rename it", text)
		}
	}
	return c.write(mcpEntry{self, args}), nil
}

func jsonEntry(servers, kind string) func(mcpEntry) string {
	if kind != "" {
		kind = fmt.Sprintf(`"type": %q, `, kind)
	}
	return func(e mcpEntry) string {
		return fmt.Sprintf("{\n  %q: {\n    \"belljar\": {%s\"command\": %s, \"args\": %s}\n  }\n}\n", servers, kind, quoted(e.command), list(e.args))
	}
}

// tomlEntry is TOML, in which a JSON string is a basic string, and so is the list.
func tomlEntry(e mcpEntry) string {
	return fmt.Sprintf("[mcp_servers.belljar]\ncommand = %s\nargs = %s\n", quoted(e.command), list(e.args))
}

// quoted is a JSON string. TOML does not allow DEL in one.
func quoted(text string) string {
	q, _ := sandbox.JSON(text) // a string always has one
	return strings.ReplaceAll(string(q), "\x7f", `\u007f`)
}

func list(words []string) string {
	var all []string
	for _, w := range words {
		all = append(all, quoted(w))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
