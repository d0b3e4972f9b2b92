package access

import (
	"belljar/internal/lazyregexp"
	"errors"
	"fmt"
	"io"
	"strings"

	"belljar/sandbox"

	"go.yaml.in/yaml/v3"
)

// tokenFile reads YAML from a file of that name.
type tokenFile string

func (f tokenFile) wrong(n *yaml.Node, path, hint, format string, args ...any) error {
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Hint: hint,
		Message: fmt.Sprintf("%s:%d: %s ", string(f), n.Line, strings.TrimPrefix(path, ".")) + fmt.Sprintf(format, args...)}
}

var (
	yamlLine = lazyregexp.New(`line (\d+): `)
	// plainKey is what a message may quote: it is shorter than a token.
	plainKey = lazyregexp.New(`^[A-Za-z0-9_-]{1,16}$`)
)

// syntax reports where the file is no YAML. What the parser says may quote the file.
func (f tokenFile) syntax(err error) error {
	at := string(f)
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		at += ":" + m[1]
	}
	if errors.Is(err, io.EOF) {
		return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: at + ": is empty", Hint: "write tokens: [" + example + "]"}
	}
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: at + ": is not YAML", Hint: "check the indentation, colons and quotes there"}
}

// mapping calls each with the keys of a mapping.
func (f tokenFile) mapping(n *yaml.Node, path string, each func(key string, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return f.wrong(n, orFile(path), "write one such as "+example, "must be a mapping")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if !plainKey.MatchString(key) {
			return f.wrong(n.Content[i], orFile(path), "write one such as "+example, "has a key that is not a plain name")
		}
		if seen[key] {
			return f.wrong(n.Content[i], path+"."+key, "remove one of them", "is a duplicate")
		}
		seen[key] = true
		if err := each(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// orFile names the whole file where there is no path.
func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// list calls each with the items of a list, which must not be empty.
func (f tokenFile) list(n *yaml.Node, path string, most int, each func(path string, item *yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return f.wrong(n, path, "write it in brackets", "must be a list")
	}
	if len(n.Content) == 0 || len(n.Content) > most {
		return f.wrong(n, path, fmt.Sprintf("write 1 to %d", most), "has %d items", len(n.Content))
	}
	for i, item := range n.Content {
		if err := each(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
			return err
		}
	}
	return nil
}

func (f tokenFile) text(n *yaml.Node, path string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || n.Value == "" {
		return "", f.wrong(n, path, "write it in quotes", "must be a string, and not empty")
	}
	return n.Value, nil
}
