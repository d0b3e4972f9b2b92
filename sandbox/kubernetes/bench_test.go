//go:build kubernetes

package kubernetes_test

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"belljar/sandbox"
)

// report adds the median and the 95th percentile, in milliseconds.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for name, at := range map[string]int{"p50-ms": len(took) / 2, "p95-ms": len(took) * 95 / 100} {
		b.ReportMetric(float64(took[at].Microseconds())/1000, name)
	}
}

// BenchmarkCommand is a command in a pod that runs, from the line to its exit status and output. Each tenth time kubectl exec does the
// same: both sides see the same load.
func BenchmarkCommand(b *testing.B) {
	e := open(b)
	box := create(b, e, newSpec(b))
	name := podOf(b, box)
	var ours, theirs []time.Duration
	for i := range b.N {
		began := time.Now()
		if out, status := run(b, box, "echo hi"); out != "hi\n" || status != 0 {
			b.Fatal(out, status)
		}
		ours = append(ours, time.Since(began))
		if i%10 == 0 {
			began = time.Now()
			if out, err := exec.Command(os.Getenv("CLUSTER_PROGRAM"), "kubectl", "-n", namespace, "exec", name, "--", "echo", "hi").CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			theirs = append(theirs, time.Since(began))
		}
	}
	report(b, ours)
	slices.Sort(theirs)
	b.ReportMetric(float64(theirs[len(theirs)/2].Microseconds())/1000, "kubectl-exec-p50-ms")
}

// BenchmarkCreate is a pod from nothing to the answer of its init, and its removal.
func BenchmarkCreate(b *testing.B) {
	e := open(b)
	var made, removed []time.Duration
	for range b.N {
		spec := newSpec(b)
		began := time.Now()
		box, err := e.Create(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		made = append(made, time.Since(began))
		began = time.Now()
		if err := box.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
		removed = append(removed, time.Since(began))
	}
	report(b, made)
	slices.Sort(removed)
	b.ReportMetric(float64(removed[len(removed)/2].Microseconds())/1000, "remove-p50-ms")
}

// BenchmarkOutput is a command that writes 64 MiB, each in a pod of its own, as after some of them one has had its burst.
func BenchmarkOutput(b *testing.B) {
	e := open(b)
	for name, script := range map[string]string{"zeros": "head -c 67108864 /dev/zero", "lines": "yes | head -c 67108864"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(64 << 20)
			for b.Loop() {
				b.StopTimer()
				box := create(b, e, newSpec(b))
				b.StartTimer()
				p, err := box.Exec(b.Context(), sandbox.Exec{Script: script, Dir: "/work", User: user, Stdout: io.Discard, Stderr: io.Discard})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
