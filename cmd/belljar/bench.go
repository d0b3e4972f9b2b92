package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"belljar/sandbox"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const benchHelp = `Measure belljar against the docker command on this host: both sides in one run,
taking turns, with the same image and lock-down. Without a ROW, bench measures
all of them, which takes a few minutes.

  cold          belljar run; docker: docker run --rm; both as whole processes
  warm          a command in a new container of the pool, from the call to its
                result, with the pool at rest before each; docker: docker run --rm
  session       a command in a session, 100 ms after the last; docker: docker exec in
                a running container
  session_burst the same without a pause, one command after the other
  kill          from a timeout until the container is gone and the result is there;
                docker: docker kill, until docker run has ended; n/4 times, at least 5
  output        256 MiB to /dev/null, as whole processes; docker: docker run; 3 times
  throughput_1  1, 2, 4 or 8 callers at once, and a container made for each command;
                docker: as many loops of docker run --rm; "throughput" is all four
  sustained_4   4 callers without a pause on the pool, and a new container for each
                command; docker: 4 loops of docker run --rm; n x 1.5 s for each side
  http          a command over HTTP, from the call to its result, with the pool at
                rest; its peer is the library on the same pool
  http_4        4 callers over HTTP without a pause; the library with 4 callers
  mcp           shell_run over MCP on two pipes, with the pool at rest; the library on the
                same pool
  cli_via_sidecar belljar run --host, with the sidecar's pool at rest; docker:
                docker run --rm; both as whole processes
  stream        256 MiB through belljar run --host; belljar run without a sidecar; 3 times

Docker's side is always the whole docker command, as scripts use it. A ratio is
belljar's figure divided by docker's: less is better for milliseconds, more is better
for commands or bytes per second.

bench uses the default profile of the configuration: its image, user, limits, network
and runtime. Run nothing else on the host at the same time. Ctrl-C stops after the
current measurement and leaves nothing behind.`

const benchExamples = `  belljar bench
  belljar bench warm session -n 200
  belljar bench throughput --runtime runsc
  belljar bench --format json | jq '.rows[] | {name, ratio_p50}'`

// benchTest is a row of the table, and how to measure it.
type benchTest struct {
	name    string
	measure func(ctx context.Context, b *bench) (benchRow, error)
}

var benchTests = []benchTest{
	{"cold", benchCold},
	{"warm", benchWarm},
	{"session", benchSession},
	{"session_burst", benchSessionBurst},
	{"kill", benchKill},
	{"output", benchOutput},
	{"throughput_1", benchThroughput(1)},
	{"throughput_2", benchThroughput(2)},
	{"throughput_4", benchThroughput(4)},
	{"throughput_8", benchThroughput(8)},
	{"sustained_4", benchSustained(4)},
	{"http", benchHTTP},
	{"http_4", benchHTTPLoad(4)},
	{"mcp", benchMCP},
	{"cli_via_sidecar", benchCLI},
	{"stream", benchStream},
}

// benchFlags are bench's flags.
type benchFlags struct {
	count   int
	runtime string
	format  string
}

func benchCmd(g *globals) *cobra.Command {
	f := &benchFlags{}
	names := append(benchNames(benchTests), "throughput")
	cmd := &cobra.Command{
		Use:       "bench [ROW...]",
		Short:     "Measure belljar against docker on this host",
		Long:      benchHelp,
		Example:   benchExamples,
		Args:      cobra.ArbitraryArgs, // selectTests has clearer messages
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			tests, err := selectTests(args)
			if err != nil {
				return err
			}
			if f.count < 1 {
				return usagef("-n %d is less than 1", f.count)
			}
			if err := textOrJSON(f.format); err != nil {
				return err
			}
			ctx, _, stop := interruptible(cmd.Context())
			defer stop()
			report, err := runBench(ctx, g, f, tests)
			if err != nil && ctx.Err() != nil {
				err = &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled", Err: err}
			}
			return report.finish(cmd.OutOrStdout(), f.format, err)
		},
	}
	cmd.Flags().IntVarP(&f.count, "count", "n", 20, "measure each side this `NUMBER` of times")
	cmd.Flags().StringVar(&f.runtime, "runtime", "", "`NAME` of the OCI runtime of both sides, such as runsc")
	formatFlag(cmd, &f.format)
	return cmd
}

func benchNames(tests []benchTest) []string {
	names := make([]string, len(tests))
	for i, test := range tests {
		names[i] = test.name
	}
	return names
}

// selectTests are the requested tests, each once, in the table's order.
func selectTests(asked []string) ([]benchTest, error) {
	names := benchNames(benchTests)
	for _, name := range asked {
		if name != "throughput" && !slices.Contains(names, name) {
			return nil, usagef("bench has no row %q: use %s, or throughput for all of its rows", name, strings.Join(names, ", "))
		}
	}
	if len(asked) == 0 {
		return benchTests, nil
	}
	var tests []benchTest
	for _, test := range benchTests {
		group := strings.HasPrefix(test.name, "throughput_") && slices.Contains(asked, "throughput")
		if group || slices.Contains(asked, test.name) {
			tests = append(tests, test)
		}
	}
	return tests, nil
}

// runBench measures the tests one after the other. The report has those that
// finished, with every error.
func runBench(ctx context.Context, g *globals, f *benchFlags, tests []benchTest) (report benchReport, err error) {
	b, end, err := newBench(ctx, g, f)
	if err != nil {
		return report, err
	}
	defer func() { err = end(err) }()
	if report.Host, err = b.host(ctx); err != nil {
		return report, err
	}
	for _, test := range tests {
		if term.IsTerminal(int(os.Stderr.Fd())) {
			tell(os.Stderr, "measuring "+test.name)
		}
		row, err := test.measure(ctx, b)
		if err != nil {
			return report, fmt.Errorf("measuring %s: %w", test.name, err)
		}
		row.Name = test.name
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}
