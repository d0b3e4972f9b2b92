package images

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/creack/pty"
	"github.com/docker/docker/pkg/jsonmessage"

	"belljar/sandbox"
	"belljar/view"
)

// hostile is what a RUN of a Dockerfile may say: it names the terminal, and clears it in two ways.
const hostile = "a\x1b]0;x\x07\u009b2J\x1b[2J\rb\u202e\tc\n"

// Texts of images and registries reach a terminal without their control characters.
func TestMessagesArePlain(t *testing.T) {
	var b bytes.Buffer
	for _, progress := range []*jsonmessage.JSONProgress{nil, {Current: 1, Total: 2, Units: hostile}} {
		m := jsonmessage.JSONMessage{Progress: progress}
		for field, is := range reflect.ValueOf(&m).Elem().Fields() {
			if is.Kind() == reflect.String && field.Name != "ErrorMessage" {
				is.SetString(hostile)
				if err := json.NewEncoder(&b).Encode(m); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var said bytes.Buffer
	if err := (&Store{Progress: &said}).display(io.NopCloser(bytes.NewReader(b.Bytes()))); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(said.String(), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }); i >= 0 || !strings.Contains(said.String(), view.Safe(hostile)) {
		t.Errorf("%q", said.String())
	}
	ours, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	shown := make(chan string)
	go func() {
		all, _ := io.ReadAll(ours) // EIO is its end
		shown <- string(all)
	}()
	if err := (&Store{Progress: terminal}).display(io.NopCloser(&b)); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	all := <-shown
	for _, bad := range []string{"\x1b]", "\x07", "\u009b", "\x1b[2J", "\u202e"} {
		if strings.Contains(all, bad) {
			t.Errorf("%q is in %q", bad, all)
		}
	}
	if !strings.Contains(all, "\x1b[1A") { // the bars' own
		t.Errorf("no bars in %q", all)
	}
}

// The output of a tool, too.
func TestToolsArePlain(t *testing.T) {
	var said bytes.Buffer
	standIn(t, "printf 'E: \\033[2J\\n' >&2; exit 25")
	_, err := (&Store{Progress: &said}).BuildDebian(t.Context(), Debian{})
	wantCause(t, err, sandbox.CauseImage, "exit status 25")
	if said.String() != "E: \\x1b[2J\n" {
		t.Errorf("%q", said.String())
	}
}
