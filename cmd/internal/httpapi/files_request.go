package httpapi

import (
	"encoding/base64"

	"belljar/cmd/internal/owned"
	"belljar/sandbox"
)

// Carried are files that go in with a command, and those that come out with its result.
type Carried struct {
	Files   []file   `json:"files,omitempty" maxItems:"1000" doc:"Written before the command starts, as its user's."`
	Collect []string `json:"collect,omitempty" maxItems:"32" doc:"Patterns of files, such as out/**, that are read into the result when the command has ended. They are relative to the workdir."`
}

type file struct {
	Path     string `json:"path" doc:"Relative to the workdir, or absolute below it, /tmp or a tmpfs directory."`
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty" enum:"utf-8,base64"`
	Mode     string `json:"mode,omitempty" pattern:"^0?[0-7]{3}$" doc:"Permissions in octal; by default 0644."`
}

// addTo adds them to the command.
func (f Carried) addTo(c *sandbox.Command) error {
	c.Collect = f.Collect
	for _, one := range f.Files {
		content, err := []byte(one.Content), error(nil)
		if one.Encoding == "base64" {
			content, err = base64.StdEncoding.DecodeString(one.Content)
		}
		if err != nil {
			return sandbox.Invalid("encode it with base64, with padding", "file %.512q is not base64: %v", one.Path, err)
		}
		mode, err := owned.ParseMode(one.Mode)
		if err != nil {
			return err
		}
		c.Files = append(c.Files, sandbox.File{Path: one.Path, Content: content, Mode: mode})
	}
	return nil
}
