package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"belljar/config"
	"belljar/sandbox"
	"belljar/sandbox/kubernetes"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const benchHelp = `Measure belljar against the docker command on this host: both sides in one run,
taking turns, with the same image and lock-down. Without a ROW, bench measures
all but eval, which takes a few minutes.

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
  sustained_1   1, 2, 4 or 8 callers without a pause on the pool, and a new container for
                each command; docker: as many loops of docker run --rm; n x 1.5 s for each
                side; "sustained" is all four
  create        a container made for one command, until that starts; docker: docker run
                --rm; with the processor time (cpu ms) of the whole host for all of it,
                removal too, and the memory (MiB) that a container takes which waits
  claim_ready   a pod of the pool taken for one command, until that starts; its peer is a
                claim of agent-sandbox, until it is ready; both pools, of the same size, are
                at rest before each; only with --engine kubernetes
  claim_run     the same, until the command has ended, which kubectl exec runs in the pod
                that was claimed; "claim" is both
  http          a command over HTTP, from the call to its result, with the pool at
                rest; its peer is the library on the same pool
  http_4        4 callers over HTTP without a pause; the library with 4 callers
  mcp           shell_run over MCP on two pipes, with the pool at rest; the library on the
                same pool
  cli_via_sidecar belljar run --host, with the sidecar's pool at rest; docker:
                docker run --rm; both as whole processes
  stream        256 MiB through belljar run --host; belljar run without a sidecar; 3 times
  eval_plain    n x 5 tasks of belljar eval, 2 at the same time, each solved in one container
                and graded in another, without controls; docker: docker run, twice for
                each; only if it is named. "eval" is both; they need this image:
                belljar images build debian --packages python3,python3-pytest --tag belljar/debian:eval
  eval_controls the same with controls, the docker side without

Docker's side is always the whole docker command, as scripts use it. A ratio is
belljar's figure divided by docker's: less is better for milliseconds, more is better
for commands or bytes per second.

With --engine docker,oci bench compares first one engine with docker, then the other. An engine
can have a runtime: docker,oci:crun,oci:runc. With --engine kubernetes bench has the rows warm,
session, session_burst, create and claim. Their peer is kubectl exec in a pod that runs, which needs
the kubectl command; that of create is a pod without a command, from the request for it until the
API server says that it runs. claim is left out where agent-sandbox is not installed.
It uses the default profile of the configuration: its image, user, limits, network
and runtime. Run nothing else on the host at the same time. Ctrl-C stops after the
current measurement and leaves nothing behind.`

const benchExamples = `  belljar bench
  belljar bench warm session -n 200
  belljar bench throughput --runtime runsc
  belljar bench warm session sustained_4 create --engine docker,oci:crun,oci:runc
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
	{"sustained_1", benchSustained(1)},
	{"sustained_2", benchSustained(2)},
	{"sustained_4", benchSustained(4)},
	{"sustained_8", benchSustained(8)},
	{"create", benchCreate},
	{"claim_ready", benchClaim(false)},
	{"claim_run", benchClaim(true)},
	{"http", benchHTTP},
	{"http_4", benchHTTPLoad(4)},
	{"mcp", benchMCP},
	{"cli_via_sidecar", benchCLI},
	{"stream", benchStream},
	{"eval_plain", benchEval(false)},
	{"eval_controls", benchEval(true)},
}

// benchGroups are several rows each.
var benchGroups = []string{"throughput", "sustained", "claim", "eval"}

// benchEngines are those that --engine takes.
var benchEngines = []string{config.EngineDocker, config.EngineOCI, config.EngineKubernetes}

// benchFlags are bench's flags.
type benchFlags struct {
	count   int
	engines []string
	runtime string
	format  string
}

func benchCmd(g *globals) *cobra.Command {
	f := &benchFlags{}
	names := append(benchNames(benchTests), benchGroups...)
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
			if err := f.check(); err != nil {
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
	cmd.Flags().StringSliceVar(&f.engines, "engine", nil, "`KIND` of engine: docker, oci or kubernetes, also with a runtime, such as oci:runc, or several, separated by commas (default: as configured)")
	cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(benchEngines, cobra.ShellCompDirectiveNoFileComp))
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
		if !slices.Contains(benchGroups, name) && !slices.Contains(names, name) {
			return nil, usagef("bench has no row %q: use %s, or %s for all of its rows", name, strings.Join(names, ", "), strings.Join(benchGroups, " or "))
		}
	}
	if len(asked) == 0 { // eval needs an image that not everyone has
		return slices.DeleteFunc(slices.Clone(benchTests), func(t benchTest) bool { return strings.HasPrefix(t.name, "eval_") }), nil
	}
	var tests []benchTest
	for _, test := range benchTests {
		group := func(name string) bool { return strings.HasPrefix(test.name, name+"_") && slices.Contains(asked, name) }
		if slices.ContainsFunc(benchGroups, group) || slices.Contains(asked, test.name) {
			tests = append(tests, test)
		}
	}
	return tests, nil
}

// check refuses flags that have no meaning.
func (f *benchFlags) check() error {
	if f.count < 1 {
		return usagef("-n %d is less than 1", f.count)
	}
	for i, engine := range f.engines {
		kind, _, named := strings.Cut(engine, ":")
		if !slices.Contains(benchEngines, kind) || slices.Contains(f.engines[:i], engine) {
			return usagef("--engine %q: use docker, oci, kubernetes, or several, such as docker,oci:crun,oci:runc", strings.Join(f.engines, ","))
		}
		if f.runtime != "" && (named || len(f.engines) > 1) {
			return usagef("--runtime is for one engine: leave it out, or write it with an engine, as in --engine docker,oci:runc")
		}
	}
	return textOrJSON(f.format)
}

// runBench measures one engine after the other.
func runBench(ctx context.Context, g *globals, f *benchFlags, tests []benchTest) (report benchReport, err error) {
	engines := f.engines
	if len(engines) == 0 {
		engines = []string{""}
	}
	for _, engine := range engines {
		one := *f
		kind, runtime, named := strings.Cut(engine, ":")
		if named {
			one.runtime = runtime
		}
		if err := report.measure(ctx, g, &one, kind, tests); err != nil {
			return report, err
		}
	}
	return report, nil
}

// measure adds the rows of one engine. After an error, the report has what was measured before
// it.
func (report *benchReport) measure(ctx context.Context, g *globals, f *benchFlags, kind string, tests []benchTest) (err error) {
	b, end, err := newBench(ctx, g, f, kind)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	if tests, err = ofEngine(tests, b.kubectl != nil); err != nil {
		return err
	}
	if report.Host, err = b.about(ctx); err != nil {
		return err
	}
	report.Engines = append(report.Engines, b.engine)
	for _, test := range tests {
		if term.IsTerminal(int(os.Stderr.Fd())) {
			tell(os.Stderr, "measuring "+test.name+" of "+b.engine.Kind)
		}
		row, err := test.measure(ctx, b)
		if errors.Is(err, kubernetes.ErrNoClaims) {
			tell(os.Stderr, fmt.Sprintf("leaving out %s: %v", test.name, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("measuring %s of %s: %w", test.name, b.engine.Kind, err)
		}
		row.Name, row.Engine = test.name, b.engine.Kind
		if f.runtime != "" {
			row.Engine += ":" + f.runtime
		}
		report.Rows = append(report.Rows, row)
	}
	return nil
}
