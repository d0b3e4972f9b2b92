package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"

	"belljar/view"
)

// benchReport is what bench prints.
type benchReport struct {
	Host    benchHost     `json:"host"`
	Engines []benchEngine `json:"engines"`
	Rows    []benchRow    `json:"rows"`
}

// benchEngine is what runs belljar's side.
type benchEngine struct {
	Kind    string `json:"kind"`
	Runtime string `json:"runtime"`
	Way     string `json:"way"`
}

// benchHost is docker's host, except for Arch, which is ours.
type benchHost struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Kernel      string `json:"kernel"`
	CPUs        int    `json:"cpus"`
	CPUModel    string `json:"cpu_model"`
	MemoryBytes int64  `json:"memory_bytes"`
	Engine      string `json:"engine"`
	Runtime     string `json:"runtime"`
	Storage     string `json:"storage_driver"`
	Cgroup      string `json:"cgroup_version"`
	Image       string `json:"image"`
	Cluster     string `json:"cluster,omitempty"` // over pods; then Engine is the API server's version, and most of the rest is empty
}

// benchRow compares two sides. PerSecond counts commands, of "output" and "stream" bytes; a
// ratio is ours divided by the peer's.
type benchRow struct {
	Name          string  `json:"name"`
	Engine        string  `json:"engine"`
	N             int     `json:"n"`
	P50           float64 `json:"p50_ms"`
	P95           float64 `json:"p95_ms"`
	P99           float64 `json:"p99_ms"`
	PerSecond     float64 `json:"per_second"`
	Peer          string  `json:"peer"`
	PeerP50       float64 `json:"peer_p50_ms"`
	PeerP95       float64 `json:"peer_p95_ms"`
	PeerPerSecond float64 `json:"peer_per_second"`
	RatioP50      float64 `json:"ratio_p50"`
	RatioP95      float64 `json:"ratio_p95"`
	CPU           float64 `json:"cpu_ms,omitempty"` // the host's processor time for one, where it was measured
	PeerCPU       float64 `json:"peer_cpu_ms,omitempty"`
	Memory        int64   `json:"memory_bytes,omitempty"` // of the host, for a container that waits
	PeerMemory    int64   `json:"peer_memory_bytes,omitempty"`
}

// measured is one side of a row.
type measured struct {
	took      []time.Duration
	perSecond float64
}

// oneByOne summarizes a single caller's measurements.
func oneByOne(took []time.Duration) measured {
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	return measured{took, float64(len(took)) / sum.Seconds()}
}

// newBenchRow is a row with zeros if nothing was measured, as after an error.
func newBenchRow(peer string, ours, theirs measured) benchRow {
	if len(ours.took) == 0 || len(theirs.took) == 0 {
		return benchRow{}
	}
	r := benchRow{
		N:   len(ours.took),
		P50: percentile(ours.took, 50), P95: percentile(ours.took, 95), P99: percentile(ours.took, 99), PerSecond: ours.perSecond,
		Peer: peer, PeerP50: percentile(theirs.took, 50), PeerP95: percentile(theirs.took, 95), PeerPerSecond: theirs.perSecond,
	}
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

// finish prints the report. A table is for people, who want to see what was
// measured before the error; JSON is complete, or not printed.
func (b benchReport) finish(w io.Writer, format string, err error) error {
	switch {
	case format == "json" && err == nil:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(b)
	case format == "text" && len(b.Rows) > 0:
		return errors.Join(err, b.table(w))
	}
	return err
}

func (b benchReport) table(w io.Writer) error {
	b.about(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tengine\tn\tp50 ms\tp95 ms\tp99 ms\tper s\tpeer\tp50 ms\tp95 ms\tper s\tratio p50\tp95\tper s\tcpu ms\tpeer\tMiB\tpeer\t")
	for _, r := range b.Rows {
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%s\t%s\t%.1f\t%.1f\t%s\t%.3f\t%.3f\t%.3f\t%s\t%s\t%s\t%s\t\n", r.Name, r.Engine, r.N, r.P50, r.P95, r.P99, r.rate(r.PerSecond),
			r.Peer, r.PeerP50, r.PeerP95, r.rate(r.PeerPerSecond), r.RatioP50, r.RatioP95, r.PerSecond/r.PeerPerSecond, orNone("%.0f", r.CPU), orNone("%.0f", r.PeerCPU), orNone("%.1f", float64(r.Memory)/(1<<20)), orNone("%.1f", float64(r.PeerMemory)/(1<<20)))
	}
	return t.Flush()
}

// about prints what the figures depend on.
func (b benchReport) about(w io.Writer) {
	h := b.Host
	if h.Cluster != "" {
		fmt.Fprintf(w, "cluster %s, Kubernetes %s\nimage %s\n\n", view.SafeLine(h.Cluster), view.SafeLine(h.Engine), view.SafeLine(h.Image))
		return
	}
	model := ""
	if h.CPUModel != "" {
		model = " (" + view.SafeLine(h.CPUModel) + ")"
	}
	fmt.Fprintf(w, "%s, %s, kernel %s\n", view.SafeLine(h.OS), h.Arch, view.SafeLine(h.Kernel))
	fmt.Fprintf(w, "%d CPUs%s, %s memory\n", h.CPUs, model, units.BytesSize(float64(h.MemoryBytes)))
	fmt.Fprintf(w, "docker's engine %s, runtime %s, storage %s, cgroup v%s\n", view.SafeLine(h.Engine), view.SafeLine(h.Runtime), view.SafeLine(h.Storage), view.SafeLine(h.Cgroup))
	for _, e := range b.Engines {
		fmt.Fprintf(w, "belljar's engine %s, runtime %s, way %s\n", e.Kind, view.SafeLine(e.Runtime), e.Way)
	}
	fmt.Fprintf(w, "image %s\n\n", view.SafeLine(h.Image))
}

// orNone is a figure for people, "-" where it was not measured.
func orNone(format string, figure float64) string {
	if figure == 0 {
		return "-"
	}
	return fmt.Sprintf(format, figure)
}

// rate is a number per second for people.
func (r benchRow) rate(perSecond float64) string {
	if r.Name == "output" || r.Name == "stream" {
		return fmt.Sprintf("%.0f MiB", perSecond/(1<<20))
	}
	return fmt.Sprintf("%.1f", perSecond)
}
