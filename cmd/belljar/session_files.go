package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"belljar/internal/filemode"
	"belljar/sandbox"
	"belljar/view"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func sessionFilesCmd(g *globals) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "ls-files NAME [PATH]",
		Short: "List the files of a session",
		Long: `List the files of a directory in a session's workspace: by default the workspace itself,
the workdir of its profile. PATH is relative to it, or absolute below it.

Names with control characters are shown with escapes; --format json has them unchanged. At
most 100,000 files are listed. The image needs stat.`,
		Example: `  belljar session ls-files dev
  belljar session ls-files dev build --format json | jq -r '.files[] | select(.type == "file") | .name'`,
		Annotations: map[string]string{takesHost: ""},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return sandbox.Invalid("such as: belljar session ls-files dev src", "session ls-files takes a session and one path")
			}
			return needName(cmd, args)
		},
		RunE: stoppable(func(cmd *cobra.Command, args []string) error {
			if err := textOrJSON(format); err != nil {
				return err
			}
			at := sandbox.SessionPath{Session: args[0], Caller: caller()}
			if len(args) > 1 {
				at.Path = args[1]
			}
			list, err := withRunner(cmd.Context(), g, func(l runner) ([]fs.FileInfo, error) { return l.ListFiles(cmd.Context(), at) })
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), filesJSON(list))
			}
			return writeFiles(cmd.OutOrStdout(), list)
		}),
	}
	formatFlag(cmd, &format)
	completeSessions(cmd, g, 1)
	return cmd
}

// fileJSON is a file of a session.
type fileJSON struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"` // file, directory, link, fifo, socket or device
	Mode     string    `json:"mode"` // octal
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

func filesJSON(list []fs.FileInfo) any {
	files := []fileJSON{}
	for _, f := range list {
		files = append(files, fileJSON{f.Name(), filemode.Type(f.Mode()), fmt.Sprintf("%04o", filemode.Bits(f.Mode())), f.Size(), f.ModTime()})
	}
	return struct {
		Files []fileJSON `json:"files"`
	}{files}
}

func writeFiles(w io.Writer, list []fs.FileInfo) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "TYPE\tMODE\tSIZE\tMODIFIED\tNAME")
	for _, f := range list {
		fmt.Fprintf(table, "%s\t%04o\t%d\t%s\t%s\n", filemode.Type(f.Mode()), filemode.Bits(f.Mode()), f.Size(), f.ModTime().Format(time.RFC3339), view.SafeLine(f.Name()))
	}
	return table.Flush()
}

const (
	progressAfter = 2 * time.Second // a shorter copy shows nothing
	progressPause = 500 * time.Millisecond
)

// copyProgress shows on a terminal how much was copied.
type copyProgress struct {
	to io.Writer // nil shows nothing

	mu    sync.Mutex
	began time.Time
	shown time.Time
	bytes int64
}

func newProgress(to io.Writer) *copyProgress {
	p := &copyProgress{began: time.Now()}
	if f, ok := to.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.to = to
	}
	return p
}

// Write counts what was copied.
func (p *copyProgress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += int64(len(b))
	if now := time.Now(); p.to != nil && now.Sub(p.began) > progressAfter && now.Sub(p.shown) > progressPause {
		p.shown = now
		fmt.Fprintf(p.to, "\rbelljar: copied %s \x1b[K", sandbox.FormatSize(p.bytes))
	}
	return len(b), nil
}

// end removes what it shows.
func (p *copyProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shown.IsZero() {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
