package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"belljar/sandbox"
)

// rows is what seq writes.
func rows(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func TestViews(t *testing.T) {
	needEngine(t)
	t.Parallel()
	whole := func(text string) *sandbox.Text { return &sandbox.Text{Text: text, Charset: "utf-8"} }
	for _, test := range []struct {
		name  string
		flags []string
		text  string
		want  sandbox.Views
	}{
		{
			"both streams apart", []string{"--view", "separate", "--view-lines", "10"}, "seq 1000; seq 2001 2100 >&2",
			sandbox.Views{
				Stdout: &sandbox.Text{Text: rows(1, 5) + "[… 3862 bytes, 990 lines left out …]\n" + rows(996, 1000), OmittedBytes: 3862, OmittedLines: 990, Charset: "utf-8"},
				Stderr: &sandbox.Text{Text: rows(2001, 2005) + "[… 450 bytes, 90 lines left out …]\n" + rows(2096, 2100), OmittedBytes: 450, OmittedLines: 90, Charset: "utf-8"},
			},
		},
		{
			"as they came", []string{"--view", "merged", "--view-lines", "4"}, "seq 50; sleep 3; seq 51 99 >&2; sleep 3; seq 100 100",
			sandbox.Views{Merged: &sandbox.Text{Text: rows(1, 2) + "[… 281 bytes, 96 lines left out …]\n" + rows(99, 100), OmittedBytes: 281, OmittedLines: 96, Charset: "utf-8"}},
		},
		{
			"what is not kept is counted, too", []string{"--view", "merged", "--view-lines", "4", "--max-output", "64KiB"}, "seq 100000",
			sandbox.Views{Merged: &sandbox.Text{Text: rows(1, 2) + "[… 588878 bytes, 99996 lines left out …]\n" + rows(99999, 100000), OmittedBytes: 588878, OmittedLines: 99996, Charset: "utf-8"}},
		},
		{
			"a bound of bytes", []string{"--view", "merged", "--view-bytes", "1KiB"}, `i=0; while [ $i -lt 4096 ]; do echo 0123456789abcde; i=$((i+1)); done`,
			sandbox.Views{Merged: &sandbox.Text{
				Text:         strings.Repeat("0123456789abcde\n", 32) + "[… 64512 bytes, 4032 lines left out …]\n" + strings.Repeat("0123456789abcde\n", 32),
				OmittedBytes: 64512, OmittedLines: 4032, Charset: "utf-8",
			}},
		},
		{
			"one long line", []string{"--view", "merged", "--view-line-chars", "100"}, `echo before; head -c 1000000 /dev/zero | tr '\0' x; echo; echo after`,
			sandbox.Views{Merged: &sandbox.Text{
				Text:         "before\n" + strings.Repeat("x", 50) + "[… 999900 characters left out …]" + strings.Repeat("x", 50) + "\nafter\n",
				OmittedBytes: 999900, Charset: "utf-8",
			}},
		},
		{
			"progress", []string{"--view", "separate"}, `for i in $(seq 100); do printf '\r%3d%%' $i; done; echo; echo done >&2`,
			sandbox.Views{Stdout: whole("100%\n"), Stderr: whole("done\n")},
		},
		{
			"a declared charset", []string{"--view", "merged", "--charset", "iso-8859-1"}, `printf 'caf\351 na\357ve\n'`,
			sandbox.Views{Merged: &sandbox.Text{Text: "café naïve\n", Charset: "windows-1252"}}, // as WHATWG has it
		},
		{
			"bytes that are no text", []string{"--view", "merged"}, `printf 'caf\303\251 \377\n'`,
			sandbox.Views{Merged: whole("café \\xff\n")},
		},
		{
			"data", []string{"--view", "separate"}, "head -c 5000 /dev/zero; echo text >&2",
			sandbox.Views{Stdout: &sandbox.Text{Text: "[binary data: 5000 bytes]", OmittedBytes: 5000, Binary: true}, Stderr: whole("text\n")},
		},
		{"none", nil, "seq 1000", sandbox.Views{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := reported(t, func(*exec.Cmd) {}, append(test.flags, test.text)...)
			r.ended(t, 0, "")
			if !reflect.DeepEqual(r.View, test.want) {
				got, _ := json.Marshal(r.View)
				want, _ := json.Marshal(test.want)
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

// eventLine is one of --format ndjson.
type eventLine struct {
	Type, Data, Encoding string
	Result               *report
}

func eventsOf(t *testing.T, args ...string) (list []eventLine) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"run", "--format", "ndjson"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v: %.1000s", err, out)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e eventLine
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// Live views have the end, each time, and the last one has all of it.
func TestLiveView(t *testing.T) {
	needEngine(t)
	t.Parallel()
	events := eventsOf(t, "--live", "view", "--live-every", "200ms", `for i in $(seq 15); do echo "line $i"; sleep 0.1; done; printf 'the end'`)
	var views []string
	most := 0
	for i, e := range events {
		switch e.Type {
		case "view":
			views = append(views, e.Data)
		case "stdout", "stderr":
			t.Errorf("%+v", e)
		case "result":
			most = int(e.Result.Timing.Total/200) + 2
			if i != len(events)-1 || !strings.HasSuffix(e.Result.Stdout, "line 15\nthe end") {
				t.Errorf("%+v", e)
			}
		}
	}
	if len(views) < 3 || len(views) > most {
		t.Errorf("%d views", len(views))
	}
	for i, v := range views[:max(0, len(views)-1)] {
		if !strings.HasPrefix(v, "line 1\n") || !strings.HasPrefix(views[i+1], v) || len(views[i+1]) == len(v) {
			t.Errorf("%q, then %q", v, views[i+1])
		}
	}
	if len(views) > 0 && !strings.HasSuffix(views[len(views)-1], "line 15\nthe end") {
		t.Errorf("the last is %q", views[len(views)-1])
	}
}

// The bytes of data come whole, and beside them, now and then, how many they are.
func TestBinaryEvents(t *testing.T) {
	needEngine(t)
	t.Parallel()
	events := eventsOf(t, `echo text; sleep 3; for i in $(seq 25); do head -c 10000 /dev/zero; sleep 0.1; done`)
	var stdout []byte
	var notices []string
	most := 0
	for _, e := range events {
		switch {
		case e.Type == "notice":
			notices = append(notices, e.Data)
		case e.Type == "stdout" && e.Encoding == "base64":
			data, err := base64.StdEncoding.DecodeString(e.Data)
			if err != nil {
				t.Error(err)
			}
			stdout = append(stdout, data...)
		case e.Type == "stdout":
			stdout = append(stdout, e.Data...)
		case e.Type == "result":
			most = int(e.Result.Timing.Total/1000) + 2
			if !e.Result.Binary {
				t.Error("the result says that it is text")
			}
		}
	}
	same(t, "stdout", stdout, append([]byte("text\n"), make([]byte, 250_000)...))
	if len(notices) < 2 || len(notices) > most || notices[len(notices)-1] != "stdout is binary: 250005 bytes so far" {
		t.Errorf("%q", notices)
	}
	if events[1].Type != "stdout" || events[1].Data != "text\n" {
		t.Errorf("%+v", events[1])
	}
}

// A terminal's screen is what a person would see, with its colours.
func TestScreen(t *testing.T) {
	needEngine(t)
	t.Parallel()
	r := reported(t, func(*exec.Cmd) {}, "-t", `printf 'plain \033[1;31mbold red\033[0m \033[4;38;2;1;2;3munder\033[m\n'; for i in $(seq 0 10 100); do printf '\r%3d%%' $i; done; printf '\nno\033[1Dw\033]0;title\a\n'; stty size; exit 3`)
	r.ended(t, 3, "")
	if r.Screen == nil {
		t.Fatalf("no screen: %s", r.json)
	}
	want := sandbox.Shot{
		Columns: 80, Rows: 24, Text: "plain bold red under\n100%\nnw\n24 80",
		Lines: [][]sandbox.Span{
			{{Text: "plain "}, {Text: "bold red", Bold: true, Foreground: "palette:1"}, {Text: " "}, {Text: "under", Underline: true, Foreground: "#010203"}},
			{{Text: "100%"}}, {{Text: "nw"}}, {{Text: "24 80"}},
		},
	}
	if !reflect.DeepEqual(*r.Screen, want) {
		t.Errorf("%+v\nwant %+v", *r.Screen, want)
	}
	if !strings.HasPrefix(r.Stdout, "plain \x1b[1;31mbold red\x1b[0m ") {
		t.Errorf("the bytes themselves are %q", r.Stdout)
	}
}
