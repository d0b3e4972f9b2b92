package boxlink

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"belljar/internal/boxinit"
	"belljar/internal/boxinit/boxinittest"
)

// Once a bug: signals that queue were handled back to back, so the init's threads never came to their own code: it did not see its
// connection end, and a pod ran on without its belljar.
func TestAFloodOfSignalsDoesNotHoldUpAnInit(t *testing.T) {
	for name, config := range map[string]boxinit.Config{
		"alone": {Carrier: boxinit.Frames, UID: user, Alone: true},
		"root":  {Carrier: boxinit.Frames, UID: initUID, Root: true},
	} {
		sender := user
		if config.Root {
			sender = 0
		}
		for _, number := range []int{17, 23, 34, 40, 64} {
			t.Run(fmt.Sprint(name, number), func(t *testing.T) { testFlood(t, config, sender, number) })
		}
	}
}

func testFlood(t *testing.T, config boxinit.Config, sender, number int) {
	cmd := boxinittest.Command(t, config)
	in, out := stdio(t, cmd)
	l := Frames(duplex{out, in, out})
	late := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { late.Stop() })
	begin(t, cmd, l) // it must end with its connection
	flooding := &watched{}
	flood := fmt.Sprintf("%s %d & ", boxinittest.Binary(t), number)
	floods := as(sender, strings.Repeat(flood, 4)+"wait")
	floods.Stdout, floods.Stderr = flooding, flooding
	start(t, l, floods)
	flooding.await(t, strings.Repeat("flooding\n", 4))
	for range 20 {
		if list, err := l.List(within(t)); err != nil || len(list.PIDs) != 5 || !l.Answers(within(t)) {
			t.Fatal(list.PIDs, err)
		}
		if out, _, code := run(t, l, as(sender, "echo still")); out != "still\n" || code != 0 {
			t.Fatalf("a command says %q, and ends with %d", out, code)
		}
	}
}
