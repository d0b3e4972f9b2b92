package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar/sandbox"
)

func milliseconds(n ...int) []time.Duration {
	var list []time.Duration
	for _, ms := range n {
		list = append(list, time.Duration(ms)*time.Millisecond)
	}
	return list
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, test := range []struct {
		of            []int
		p50, p95, p99 float64
	}{
		{[]int{7}, 7, 7, 7},
		{[]int{3, 1}, 2, 3, 3},
		{[]int{9, 1, 5}, 5, 9, 9},
		{[]int{40, 10, 30, 20}, 25, 40, 40},
		{hundred, 50.5, 95, 99},
	} {
		d := milliseconds(test.of...)
		got := []float64{percentile(d, 50), percentile(d, 95), percentile(d, 99)}
		if want := []float64{test.p50, test.p95, test.p99}; !slices.Equal(got, want) {
			t.Errorf("percentiles of %v = %v, want %v", test.of, got, want)
		}
	}
}

func TestSelectTests(t *testing.T) {
	all := "cold warm session session_burst kill output throughput_1 throughput_2 throughput_4 throughput_8 sustained_1 sustained_2 sustained_4 sustained_8 create claim_ready claim_run http http_4 mcp cli_via_sidecar stream"
	for asked, want := range map[string]string{
		"":                          all,
		"warm":                      "warm",
		"session warm session":      "warm session",
		"throughput":                "throughput_1 throughput_2 throughput_4 throughput_8",
		"throughput_4":              "throughput_4",
		"throughput_4 throughput":   "throughput_1 throughput_2 throughput_4 throughput_8",
		"throughput cold":           "cold throughput_1 throughput_2 throughput_4 throughput_8",
		all:                         all,
		"throughput_8 throughput_1": "throughput_1 throughput_8",
		"sustained warm":            "warm sustained_1 sustained_2 sustained_4 sustained_8",
		"claim create":              "create claim_ready claim_run",
	} {
		tests, err := selectTests(strings.Fields(asked))
		if got := strings.Join(benchNames(tests), " "); got != want || err != nil {
			t.Errorf("selectTests(%q) = %q, %v, want %q", asked, got, err, want)
		}
	}
}

// Over pods there are fewer rows, and those of agent-sandbox's claims. What was asked for is not left out in silence if it is all.
func TestRowsOfEngine(t *testing.T) {
	for _, test := range []struct {
		asked string
		pods  bool
		want  string
	}{
		{"cold warm create claim", true, "warm create claim_ready claim_run"},
		{"cold warm create claim", false, "cold warm create"},
		{"claim_run", true, "claim_run"},
		{"cold", true, "with engine.kind kubernetes, bench has the rows warm, session, session_burst, create, claim_ready, claim_run"},
		{"claim", false, "bench has the rows claim_ready and claim_run only with --engine kubernetes"},
	} {
		tests, err := selectTests(strings.Fields(test.asked))
		if err != nil {
			t.Fatal(err)
		}
		tests, err = ofEngine(tests, test.pods)
		got := strings.Join(benchNames(tests), " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, test.want) || err == nil && got != test.want {
			t.Errorf("%q over pods %t: %q, want %q", test.asked, test.pods, got, test.want)
		}
	}
}

// What is wrong with the command line is said before an engine is asked.
func TestBenchUsage(t *testing.T) {
	for args, want := range map[string]string{
		"nope":              `no row "nope": use cold, warm, session, session_burst, kill, output, throughput_1,`,
		"cold throughput_3": `no row "throughput_3"`,
		"-n 0":              "-n 0 is less than 1",
		"cold -n -1":        "-n -1 is less than 1",
		"--format xml":      `--format "xml" is unknown`,
		"--engine podman":   `--engine "podman": use docker, oci, kubernetes, or several`,
		"--engine oci,oci":  `--engine "oci,oci": use docker, oci, kubernetes, or several`,

		"--engine docker,oci --runtime runc": "--runtime is for one engine",
		"--engine oci:crun --runtime runc":   "--runtime is for one engine",
		"--engine oci:runc,oci:runc":         `use docker, oci, kubernetes, or several, such as docker,oci:crun,oci:runc`,
	} {
		cmd := rootCmd()
		cmd.SetArgs(append([]string{"bench"}, strings.Fields(args)...))
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("bench %s: %v, want %q", args, err, want)
		}
	}
}

func TestAlternate(t *testing.T) {
	var turns []string
	turn := func(name string, first, other int) side {
		return func(context.Context) (time.Duration, error) {
			turns = append(turns, name)
			if len(turns) <= 2 {
				return milliseconds(first)[0], nil
			}
			return milliseconds(other)[0], nil
		}
	}
	a, b, err := alternate(t.Context(), 3, turn("ours", 1000, 10), turn("theirs", 1000, 40))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(turns, " "), strings.Repeat(" ours theirs", 4)[1:]; got != want {
		t.Errorf("the turns were %q, want %q", got, want)
	}
	if !slices.Equal(a.took, milliseconds(10, 10, 10)) || !slices.Equal(b.took, milliseconds(40, 40, 40)) {
		t.Errorf("measured %v and %v: the first turns do not count", a.took, b.took)
	}
	if a.perSecond != 100 || b.perSecond != 25 {
		t.Errorf("%v and %v per second, want 100 and 25", a.perSecond, b.perSecond)
	}
}

func TestAlternateEnds(t *testing.T) {
	wrong := errors.New("wrong")
	count := 0
	fails := func(context.Context) (time.Duration, error) { count++; return 0, wrong }
	if _, _, err := alternate(t.Context(), 5, fails, fails); !errors.Is(err, wrong) || count != 1 {
		t.Errorf("%v after %d turns", err, count)
	}
	ctx, cancel := context.WithCancel(t.Context())
	count = 0
	cancels := func(context.Context) (time.Duration, error) { count++; cancel(); return 1, nil }
	if _, _, err := alternate(ctx, 5, cancels, cancels); !errors.Is(err, context.Canceled) || count != 1 {
		t.Errorf("%v after %d turns", err, count)
	}
}

// Callers wait for each other at a round's end only: 4 callers with 3 commands of
// 100 ms each take 300 ms for 12.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		does := func(d time.Duration) side {
			return func(context.Context) (time.Duration, error) { time.Sleep(d); return d, nil }
		}
		a, b, err := rounds(t.Context(), 4, 3, does(100*time.Millisecond), does(200*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if len(a.took) != 4*3*throughputRounds || a.perSecond != 40 || len(b.took) != len(a.took) || b.perSecond != 20 {
			t.Errorf("%d at %v per second beside %d at %v", len(a.took), a.perSecond, len(b.took), b.perSecond)
		}
	})
}

// Each side goes on for the whole of its turns, with a rest before each.
func TestSustained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rests := 0
		does := func(d time.Duration) side {
			return func(context.Context) (time.Duration, error) { time.Sleep(d); return d, nil }
		}
		rest := func() error { rests++; time.Sleep(time.Hour); return nil }
		a, b, err := sustained(t.Context(), 4, 3*time.Second, rest, does(100*time.Millisecond), does(200*time.Millisecond))
		if err != nil || rests != 2*sustainedTurns {
			t.Fatalf("%v after %d rests", err, rests)
		}
		if len(a.took) != 4*30*sustainedTurns || a.perSecond != 40 || len(b.took) != 4*15*sustainedTurns || b.perSecond != 20 {
			t.Errorf("%d at %v per second beside %d at %v", len(a.took), a.perSecond, len(b.took), b.perSecond)
		}
	})
}

func TestCallAllEnds(t *testing.T) {
	wrong := errors.New("wrong")
	var count atomic.Int32
	_, _, err := callAll(t.Context(), 3, times(1000), func(context.Context) (time.Duration, error) {
		if count.Add(1) == 5 {
			return 0, wrong
		}
		return 0, nil
	})
	if !errors.Is(err, wrong) || count.Load() == 3000 {
		t.Errorf("%v after %d commands", err, count.Load())
	}
}

func someReport() benchReport {
	cold := newBenchRow("docker run", oneByOne(milliseconds(100, 100)), oneByOne(milliseconds(200, 200)))
	cold.Name = "cold"
	output := newBenchRow("docker run", measured{milliseconds(500), 512 << 20}, measured{milliseconds(250), 1024 << 20})
	output.Name = "output"
	cold.Engine, output.Engine = "oci", "docker"
	cold.CPU, cold.PeerCPU = 20.4, 290
	cold.Memory, cold.PeerMemory = 3<<20+300<<10, 2<<20+800<<10
	return benchReport{
		Engines: []benchEngine{{Kind: "oci", Runtime: "crun\x1b", Way: "init"}},
		Host: benchHost{
			OS: "Debian\x1b", Arch: "amd64", Kernel: "6.1", CPUs: 2, CPUModel: "Fast CPU", MemoryBytes: 4 << 30,
			Engine: "28.5.2", Runtime: "runc", Storage: "overlay2", Cgroup: "2", Image: "sha256:12",
		},
		Rows: []benchRow{cold, output},
	}
}

// The keys are those that scripts rely on.
func TestBenchJSON(t *testing.T) {
	var b strings.Builder
	if err := someReport().finish(&b, "json", nil); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Host    map[string]any
		Engines []map[string]any
		Rows    []map[string]any
	}
	d := json.NewDecoder(strings.NewReader(b.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"name": "cold", "engine": "oci", "cpu_ms": 20.4, "peer_cpu_ms": 290.0, "memory_bytes": 3452928.0, "peer_memory_bytes": 2916352.0, "n": 2.0, "p50_ms": 100.0, "p95_ms": 100.0, "p99_ms": 100.0, "per_second": 10.0,
		"peer": "docker run", "peer_p50_ms": 200.0, "peer_p95_ms": 200.0, "peer_per_second": 5.0, "ratio_p50": 0.5, "ratio_p95": 0.5,
	}
	if diff := cmp.Diff(want, got.Rows[0]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]map[string]any{{"kind": "oci", "runtime": "crun\x1b", "way": "init"}}, got.Engines); diff != "" {
		t.Error(diff)
	}
	for _, key := range []string{"os", "arch", "kernel", "cpus", "cpu_model", "memory_bytes", "engine", "runtime", "storage_driver", "cgroup_version", "image"} {
		if got.Host[key] == nil {
			t.Errorf("the host has no %q", key)
		}
	}
}

func TestBenchTable(t *testing.T) {
	want := `
Debian\x1b, amd64, kernel 6.1
2 CPUs (Fast CPU), 4GiB memory
docker's engine 28.5.2, runtime runc, storage overlay2, cgroup v2
belljar's engine oci, runtime crun\x1b, way init
image sha256:12

          engine  n  p50 ms  p95 ms  p99 ms    per s        peer  p50 ms  p95 ms     per s  ratio p50    p95  per s  cpu ms  peer  MiB  peer
    cold     oci  2   100.0   100.0   100.0     10.0  docker run   200.0   200.0       5.0      0.500  0.500  2.000      20   290  3.3   2.8
  output  docker  1   500.0   500.0   500.0  512 MiB  docker run   250.0   250.0  1024 MiB      2.000  2.000  0.500       -     -    -     -
`
	var b strings.Builder
	if err := someReport().finish(&b, "text", nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, "\n"+b.String()); diff != "" {
		t.Error(diff)
	}
}

// An error loses no row that was measured, and makes no JSON that looks whole.
func TestBenchError(t *testing.T) {
	wrong := errors.New("wrong")
	for format, rows := range map[string]bool{"text": true, "json": false} {
		var b strings.Builder
		if err := someReport().finish(&b, format, wrong); !errors.Is(err, wrong) || strings.Contains(b.String(), "cold") != rows {
			t.Errorf("%s: %v\n%s", format, err, &b)
		}
		b.Reset()
		if err := (benchReport{}).finish(&b, format, wrong); !errors.Is(err, wrong) || b.Len() > 0 {
			t.Errorf("%s without a row: %v\n%s", format, err, &b)
		}
	}
}

func TestCPUModel(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nmodel\t\t: 85\nmodel name\t: Fast(R)  CPU: 3 GHz\nflags\t: fpu\n": "Fast(R) CPU: 3 GHz",
		"processor\t: 0\nBogoMIPS\t: 50.00\n":                                              "",
		"":                                                                                 "",
	} {
		if got := cpuModel(text); got != want {
			t.Errorf("cpuModel(%q) = %q, want %q", text, got, want)
		}
	}
}

// A bench of two engines gives the second one the user's state directory, too.
func TestOwnStateIsForgotten(t *testing.T) {
	for _, before := range []string{"", "/users"} {
		t.Setenv("XDG_STATE_HOME", before)
		if before == "" {
			os.Unsetenv("XDG_STATE_HOME")
		}
		forget, err := ownState()
		if err != nil {
			t.Fatal(err)
		}
		dir := os.Getenv("XDG_STATE_HOME")
		if err := forget(); err != nil || dir == before || os.Getenv("XDG_STATE_HOME") != before {
			t.Errorf("%v: it was %q, then %q, and is %q", err, before, dir, os.Getenv("XDG_STATE_HOME"))
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}
