package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// What a package makes ready is paid for at every start. go-runewidth v0.0.27
// took about 50 ms of it.
func TestStartIsQuick(t *testing.T) {
	const most, starts = 15 * time.Millisecond, 5
	best := map[string]time.Duration{} // the machine may be busy
	for range starts {
		for name, took := range initTimes(t) {
			if known, ok := best[name]; !ok || took < known {
				best[name] = took
			}
		}
	}
	if len(best) == 0 {
		t.Fatal("the runtime tells of no package")
	}
	for name, took := range best {
		if took > most {
			t.Errorf("%s takes %v to be ready, each of %d times", name, took, starts)
		}
	}
}

// initTimes is how long each package took, by a runtime's lines such as
// "init belljar/policy @9.5 ms, 1.8 ms clock, 767560 bytes, 9227 allocs".
func initTimes(t *testing.T) map[string]time.Duration {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	times := map[string]time.Duration{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 7 || fields[0] != "init" || fields[6] != "clock," {
			continue
		}
		took, err := time.ParseDuration(fields[4] + fields[5])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		times[fields[1]] = took
	}
	return times
}
