package report

import (
	"cmp"
	"fmt"
	"iter"
	"strings"

	"belljar/sandbox"
	"belljar/view"
)

// part is one text that the command wrote, or that was made of it.
type part struct {
	name string
	text sandbox.Text
}

// outputs are the result's views or, where it has none, views of its streams.
func outputs(r sandbox.Result, bounds sandbox.View) []part {
	if bounds = withDefaults(bounds); r.Screen != nil {
		text := []byte(r.Screen.Text)
		t := viewOf(bounds, sandbox.Output{Head: text, Total: int64(len(text)), Lines: int64(strings.Count(r.Screen.Text, "\n"))})
		return []part{{fmt.Sprintf("Screen of %d columns and %d rows", r.Screen.Columns, r.Screen.Rows), t}}
	}
	if v := r.Views; v != nil {
		return named(v.Merged, v.Stdout, v.Stderr)
	}
	// Both share the bound. What one of them leaves of its half is the other's.
	whole, small := bounds, bounds
	small.Bytes, small.Lines = max(bounds.Bytes/2, 1), max(bounds.Lines/2, 1)
	stderr := viewOf(small, r.Stderr)
	whole.Bytes = max(bounds.Bytes-int64(len(stderr.Text)), 1)
	whole.Lines = max(bounds.Lines-int64(strings.Count(stderr.Text, "\n")), 1)
	stdout := viewOf(whole, r.Stdout)
	return named(nil, &stdout, &stderr)
}

// withDefaults has the bounds of sandbox.Defaults where there are none.
func withDefaults(v sandbox.View) sandbox.View {
	d := sandbox.Defaults().Profile.View
	v.Bytes, v.Lines, v.LineChars = cmp.Or(v.Bytes, d.Bytes), cmp.Or(v.Lines, d.Lines), cmp.Or(v.LineChars, d.LineChars)
	return v
}

// named are the parts that have something in them. One alone is the output.
func named(merged, stdout, stderr *sandbox.Text) (list []part) {
	for _, p := range []struct {
		name string
		text *sandbox.Text
	}{{"Output", merged}, {"Stdout", stdout}, {"Stderr", stderr}} {
		if p.text != nil && (p.text.Text != "" || p.text.OmittedBytes > 0) {
			list = append(list, part{p.name, *p.text})
		}
	}
	return list
}

// viewOf is the view of what was kept of a stream.
func viewOf(bounds sandbox.View, o sandbox.Output) sandbox.Text {
	return view.Viewer{}.View(bounds, chunks(o), sandbox.Total{Bytes: o.Total, Lines: o.Lines})
}

func chunks(o sandbox.Output) iter.Seq[sandbox.Chunk] {
	return func(yield func(sandbox.Chunk) bool) {
		if !yield(sandbox.Chunk{Data: o.Head}) {
			return
		}
		if o.Dropped > 0 || len(o.Tail) > 0 {
			yield(sandbox.Chunk{Offset: int64(len(o.Head)) + o.Dropped, Missed: o.Dropped, Data: o.Tail})
		}
	}
}

func leftOut(parts []part) (bytes int64) {
	for _, p := range parts {
		bytes += p.text.OmittedBytes
	}
	return bytes
}

// written is what the command wrote, which comes last.
func written(r sandbox.Result, parts []part) string {
	var b strings.Builder
	if r.Summary != "" {
		b.WriteString("Summary of the output:\n" + endLine(view.Safe(r.Summary)))
	}
	for _, p := range parts {
		b.WriteString(p.name + ":\n" + endLine(p.text.Text))
	}
	if b.Len() == 0 && r.ExitCode != sandbox.ExitNeverRan {
		return "Output: none\n"
	}
	return b.String()
}

func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
