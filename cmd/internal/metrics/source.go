package metrics

import (
	"context"
	"sync"
	"time"

	"belljar/sandbox"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	askTimeout = 2 * time.Second  // of the engine, for each question of a scrape
	askAgain   = 10 * time.Second // not more often, however many scrapes there are
)

// Sources are what a scrape reads. A nil one has no metrics.
type Sources struct {
	Pools    sandbox.Pools
	Sessions sandbox.Sessions
	Load     Load
}

// Load is what a Runner does at the moment.
type Load interface {
	// Load counts the commands that run, that wait for a turn, and that wait for an approval.
	Load() (running, waiting, asking int)
}

// source reads the Sources with each scrape.
type source struct {
	Sources

	mu       sync.Mutex
	asked    time.Time // when the sessions were last counted
	sessions int       // negative: the engine did not say
}

func newSource(from Sources) *source { return &source{Sources: from} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	runningDesc  = desc("executions_running", "Commands that run.")
	waitingDesc  = desc("queue_waiting", "Commands that wait for a free slot or for their session.")
	askingDesc   = desc("approvals_waiting", "Commands that wait for a person's approval.")
	sessionsDesc = desc("sessions", "Sessions that exist. Absent while the engine does not answer.")
	poolDesc     = desc("pool_containers", "Containers of a pool: ready, being made, and how many should be ready.", "profile", "state")
	failedDesc   = desc("pool_failing", "1 while the last try to make a container for the pool failed.", "profile")

	// poolTotals count what became of each pool's containers.
	poolTotals = []struct {
		desc *prometheus.Desc
		of   func(sandbox.PoolStatus) int
	}{
		{desc("pool_made_total", "Containers made for the pool.", "profile"), func(p sandbox.PoolStatus) int { return p.Made }},
		{desc("pool_used_total", "Containers given to a command.", "profile"), func(p sandbox.PoolStatus) int { return p.Used }},
		{desc("pool_missed_total", "Commands that found none ready.", "profile"), func(p sandbox.PoolStatus) int { return p.Missed }},
		{desc("pool_lost_total", "Containers that ended or hung before they were used.", "profile"), func(p sandbox.PoolStatus) int { return p.Lost }},
		{desc("pool_drained_total", "Containers removed because of age, because the image changed, or with their node, which is being drained.", "profile"), func(p sandbox.PoolStatus) int { return p.Drained }},
	}
)

// Describe implements prometheus.Collector.
func (s *source) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{runningDesc, waitingDesc, askingDesc, sessionsDesc, poolDesc, failedDesc} {
		to <- d
	}
	for _, total := range poolTotals {
		to <- total.desc
	}
}

// Collect implements prometheus.Collector.
func (s *source) Collect(to chan<- prometheus.Metric) {
	if s.Load != nil {
		running, waiting, asking := s.Load.Load()
		to <- gauge(runningDesc, running)
		to <- gauge(waitingDesc, waiting)
		to <- gauge(askingDesc, asking)
	}
	if s.Sessions != nil {
		if n := s.countSessions(); n >= 0 {
			to <- gauge(sessionsDesc, n)
		}
	}
	if s.Pools != nil {
		s.collectPools(to)
	}
}

func (s *source) collectPools(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	list, err := s.Pools.Pools(ctx)
	if err != nil {
		return
	}
	for _, p := range list {
		to <- gauge(poolDesc, p.Ready, p.Profile, "ready")
		to <- gauge(poolDesc, p.Making, p.Profile, "making")
		to <- gauge(poolDesc, p.Target, p.Profile, "target")
		failing := 0
		if p.Error != "" {
			failing = 1
		}
		to <- gauge(failedDesc, failing, p.Profile)
		for _, total := range poolTotals {
			to <- prometheus.MustNewConstMetric(total.desc, prometheus.CounterValue, float64(total.of(p)), p.Profile)
		}
	}
}

// countSessions asks the engine, but not with every scrape: the list costs it a call for each
// session.
func (s *source) countSessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked.IsZero() && time.Since(s.asked) < askAgain {
		return s.sessions
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	list, err := s.Sessions.Sessions(ctx)
	s.asked, s.sessions = time.Now(), len(list)
	if err != nil {
		s.sessions = -1
	}
	return s.sessions
}

func gauge(d *prometheus.Desc, value int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}
