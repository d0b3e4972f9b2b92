package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/docker"

	"github.com/spf13/cobra"
)

func benchCmd(g *globals) *cobra.Command {
	var count int
	var format string
	cmd := &cobra.Command{
		Use:   "bench cold",
		Short: "Measure belljar against docker on this host",
		Long: `Measure belljar against the docker command on this host: both sides in one run,
alternating, with the same image and lock-down.

  cold   belljar run true, beside docker run --rm: the whole processes, wall time`,
		Example:   "  belljar bench cold\n  belljar bench cold -n 50 --format json",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"cold"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count < 1 || (format != "text" && format != "json") {
				return usagef("bench needs -n of 1 or more, and --format text or json")
			}
			report, err := benchCold(cmd.Context(), g, count)
			if err != nil {
				return err
			}
			return report.write(cmd.OutOrStdout(), format)
		},
	}
	cmd.Flags().IntVarP(&count, "count", "n", 20, "measure each side this `NUMBER` of times")
	cmd.Flags().StringVar(&format, "format", "text", "`text|json`")
	return cmd
}

// benchReport is what bench prints.
type benchReport struct {
	Host benchHost  `json:"host"`
	Rows []benchRow `json:"rows"`
}

type benchHost struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	Engine string `json:"engine"`
	Image  string `json:"image"`
}

type benchRow struct {
	Name     string  `json:"name"`
	N        int     `json:"n"`
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	P99      float64 `json:"p99_ms"`
	Peer     string  `json:"peer"`
	PeerP50  float64 `json:"peer_p50_ms"`
	PeerP95  float64 `json:"peer_p95_ms"`
	RatioP50 float64 `json:"ratio_p50"`
	RatioP95 float64 `json:"ratio_p95"`
}

// benchCold times both processes count times after one round that warms the
// engine's caches. They alternate, so that the host's moods hit both.
func benchCold(ctx context.Context, g *globals, count int) (*benchReport, error) {
	engine, c, err := g.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	p := c.Profiles[sandbox.DefaultProfile]
	image, err := newStore(engine).Resolve(ctx, p.Image, p.Pull)
	if err != nil {
		return nil, err
	}
	peer, cleanup, err := dockerRun(engine, p, image)
	if err != nil {
		return nil, err
	}
	defer cleanup()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding belljar itself: %w", err)
	}
	own := []string{self, "run", "true"}
	if g.configPath != "" {
		own = []string{self, "--config", g.configPath, "run", "true"}
	}
	var ours, theirs []time.Duration
	for i := range count + 1 {
		a, errA := timed(ctx, own)
		b, errB := timed(ctx, peer)
		if errA != nil || errB != nil {
			return nil, fmt.Errorf("measuring: %w", errors.Join(errA, errB))
		}
		if i > 0 {
			ours, theirs = append(ours, a), append(theirs, b)
		}
	}
	about, err := engine.About(ctx)
	if err != nil {
		return nil, err
	}
	host := benchHost{runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), about.Version, image.ID}
	return &benchReport{Host: host, Rows: []benchRow{newBenchRow("cold", "docker run", ours, theirs)}}, nil
}

// dockerRun is the peer's command line.
func dockerRun(engine *docker.Engine, p sandbox.Profile, image sandbox.Image) ([]string, func(), error) {
	profile, err := docker.SeccompProfile()
	if err != nil {
		return nil, nil, err
	}
	file, err := os.CreateTemp("", "belljar-seccomp-*.json")
	if err != nil {
		return nil, nil, fmt.Errorf("writing the seccomp profile: %w", err)
	}
	remove := func() { os.Remove(file.Name()) }
	if _, err := io.WriteString(file, profile); err != nil {
		remove()
		return nil, nil, fmt.Errorf("writing the seccomp profile: %w", err)
	}
	file.Close()
	args, err := docker.RunArgs(sandbox.Spec{Image: image, User: p.User, Workdir: p.Workdir, Limits: p.Limits, Network: p.Network, Runtime: p.Runtime}, file.Name())
	return append(append([]string{"docker", "--host", engine.Host()}, args...), "-c", "true"), remove, err
}

func timed(ctx context.Context, argv []string) (time.Duration, error) {
	begun := time.Now()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	took := time.Since(begun)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", argv[0], err, printable(string(out)))
	}
	return took, nil
}

func newBenchRow(name, peer string, ours, theirs []time.Duration) benchRow {
	r := benchRow{Name: name, N: len(ours), Peer: peer,
		P50: percentile(ours, 50), P95: percentile(ours, 95), P99: percentile(ours, 99),
		PeerP50: percentile(theirs, 50), PeerP95: percentile(theirs, 95)}
	r.RatioP50, r.RatioP95 = r.P50/r.PeerP50, r.P95/r.PeerP95
	return r
}

// percentile is the value that p of a hundred do not exceed, in milliseconds:
// the nearest rank, so that it was measured; the median of an even number is
// the mean of its middle two.
func percentile(d []time.Duration, p int) float64 {
	s := slices.Sorted(slices.Values(d))
	if n := len(s); p == 50 && n%2 == 0 {
		return (s[n/2-1] + s[n/2]).Seconds() * 500
	}
	return s[(len(s)*p+99)/100-1].Seconds() * 1000
}

func (b *benchReport) write(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(b)
	}
	fmt.Fprintf(w, "%s/%s, %d CPUs, engine %s\n\n", b.Host.OS, b.Host.Arch, b.Host.CPUs, b.Host.Engine)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tn\tp50 ms\tp95 ms\tpeer\tp50 ms\tp95 ms\tratio p50\tratio p95\t")
	for _, r := range b.Rows {
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%s\t%.1f\t%.1f\t%.2f\t%.2f\t\n", r.Name, r.N, r.P50, r.P95, r.Peer, r.PeerP50, r.PeerP95, r.RatioP50, r.RatioP95)
	}
	return t.Flush()
}
