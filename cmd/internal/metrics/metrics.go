// Package metrics counts what a server runs, for Prometheus, in a registry of its own.
//
// The one rule: no label is a caller's choice. Profiles are the configured ones, routes
// are patterns, methods are the known ones; everything else is "other". So a caller can
// make the numbers large, but never many.
//
//	m := metrics.New(version, metrics.Sources{Pools: runner, Sessions: runner, Load: runner})
//	m.SetProfiles(names)
//	m.Ended(result)
//
// Design: the server reports each end. The package is no Runner around the Runner, since
// a second channel of events costs something for each chunk of output.
package metrics

import (
	"runtime"
	"strconv"
	"sync/atomic"

	"belljar/sandbox"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// other is the label of what is not configured or known.
const other = "other"

// Metrics counts executions and requests. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	profiles atomic.Pointer[map[string]bool]

	ended        *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	start        *prometheus.HistogramVec
	queued       *prometheus.HistogramVec
	output       *prometheus.CounterVec
	engineErrors *prometheus.CounterVec
	lingering    prometheus.Counter
	requests     *prometheus.CounterVec
}

// New registers the metrics. Sources are read with each scrape.
func New(version string, from Sources) *Metrics {
	m := &Metrics{
		registry:     prometheus.NewRegistry(),
		ended:        counters("executions_total", "Commands that ended or were refused.", "status", "cause", "profile"),
		duration:     seconds("execution_duration_seconds", "From the moment a command was taken to its result.", "cause", "profile"),
		start:        seconds("execution_start_seconds", "Taking or making the container and starting the command.", "profile", "warm"),
		queued:       seconds("execution_queued_seconds", "How long a command waited for a free slot and its image.", "profile"),
		output:       counters("output_bytes_total", "What commands wrote.", "stream"),
		engineErrors: counters("engine_errors_total", "Commands that the engine or their image failed.", "cause"),
		lingering:    prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "lingering_processes_total", Help: "Processes that still ran when their command ended."}),
		requests:     counters("http_requests_total", "Requests to the API that were answered.", "route", "method", "code"),
	}
	m.SetProfiles(nil)
	m.registry.MustRegister(m.ended, m.duration, m.start, m.queued, m.output, m.engineErrors, m.lingering, m.requests,
		newSource(from), buildInfo(version), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, cause := range engineCauses { // an alert needs the 0 before the 1
		m.engineErrors.WithLabelValues(string(cause))
	}
	return m
}

const namespace = "belljar"

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// seconds are native histograms. The few classic buckets are for the text format, and for a
// Prometheus that does not read native ones.
func seconds(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
		Buckets: []float64{.005, .01, .025, .1, .5, 1, 5, 30, 120, 600, 3600},
	}, labels)
}

func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	}, func() float64 { return 1 })
}

// SetProfiles says which profiles are configured, at the start and when that changes.
func (m *Metrics) SetProfiles(names []string) {
	known := map[string]bool{sandbox.DefaultProfile: true}
	for _, name := range names {
		known[name] = true
	}
	m.profiles.Store(&known)
}

func (m *Metrics) profile(name string) string {
	switch {
	case name == "":
		return sandbox.DefaultProfile
	case (*m.profiles.Load())[name]:
		return name
	}
	return other
}

// Ended counts the result of a command that started.
func (m *Metrics) Ended(r sandbox.Result) {
	profile := m.profile(r.Profile)
	m.count(r, profile)
	m.duration.WithLabelValues(string(r.Cause), profile).Observe(r.Timing.Total.Seconds())
	if r.Timing.Queued > 0 { // 0: it ended in the queue
		m.queued.WithLabelValues(profile).Observe(r.Timing.Queued.Seconds())
	}
	if r.Timing.Start > 0 { // 0: it never started
		m.start.WithLabelValues(profile, strconv.FormatBool(r.Container.Warm)).Observe(r.Timing.Start.Seconds())
	}
	m.output.WithLabelValues("stdout").Add(float64(r.Stdout.Total))
	m.output.WithLabelValues("stderr").Add(float64(r.Stderr.Total))
	m.lingering.Add(float64(len(r.Lingering)))
}

// Refused counts a command that Start refused with err.
func (m *Metrics) Refused(profile string, err error) {
	m.count(sandbox.Refused(sandbox.Command{}, err), m.profile(profile))
}

// engineCauses are those of commands that did not get what they were allowed.
var engineCauses = []sandbox.Cause{sandbox.CauseEngine, sandbox.CauseEngineLost, sandbox.CauseImage}

func (m *Metrics) count(r sandbox.Result, profile string) {
	m.ended.WithLabelValues(string(r.Status), string(r.Cause), profile).Inc()
	for _, cause := range engineCauses {
		if r.Cause == cause {
			m.engineErrors.WithLabelValues(string(cause)).Inc()
		}
	}
}
