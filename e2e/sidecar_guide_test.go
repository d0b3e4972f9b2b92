package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```")

// What docs/sidecar.md shows on the console is what one gets, from the first line to the last.
func TestSidecarGuide(t *testing.T) {
	t.Parallel()
	needEngine(t)
	text, err := os.ReadFile("../docs/sidecar.md")
	if err != nil {
		t.Fatal(err)
	}
	home := socketDir(t)
	script, want := "cd\n", ""
	for _, block := range consoleBlock.FindAllSubmatch(text, -1) {
		for line := range strings.Lines(string(block[1])) {
			if command, is := strings.CutPrefix(line, "$ "); is {
				script += command
			} else {
				want += line
			}
		}
	}
	if strings.Count(script, "\n") < 10 {
		t.Fatalf("the guide has hardly a command: %s", script)
	}
	cmd := exec.Command("bash", "-c", script+"kill $!\nwait\n")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, "state"), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != want {
		log, _ := os.ReadFile(filepath.Join(home, "serve.log"))
		t.Errorf("%v\n%s\nwant\n%s\nserve.log:\n%s", err, out, want, log)
	}
}
