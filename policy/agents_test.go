package policy

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

// TestAgents checks the bundled sets against commands that agents really send.
func TestAgents(t *testing.T) {
	const file = "testdata/agents.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if strings.HasPrefix(line, "#") {
			out.WriteString(line)
			continue
		}
		script, err := strconv.Unquote(fields[3])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		v := bundled(t, fields[0], fields[1]).Judge(script, "")
		checkVerdict(t, script, v)
		fmt.Fprintln(&out, fields[0], fields[1], v.Decision, fields[3])
		if v.Decision.String() != fields[2] && !*update {
			t.Errorf("%s (%s): %q is %s, want %s: %s", fields[0], fields[1], script, v.Decision, fields[2], v.Reason)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
