package report

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/eval/run"
	"belljar/sandbox"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is Chromium, and what it complained about.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex
	said []string
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no chromium: see scripts/setup")
		}
		t.Skip("NOT TESTED: there is no chromium")
	}
	home := t.TempDir()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.UserDataDir(filepath.Join(home, "profile")),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home), chromedp.WSURLReadTimeout(5*time.Minute))
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	b := &browser{t: t}
	ctx, end := chromedp.NewContext(allocator, chromedp.WithListener(b.heard))
	b.ctx = ctx
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("ending chromium: %v", err)
		}
		end()
		release()
		chromedp.FromContext(ctx).Allocator.Wait()
	})
	command(b, log.Enable, cdp.Empty{})
	command(b, runtime.Enable, cdp.Empty{})
	return b
}

// heard keeps errors, and what the page's policy refused.
func (b *browser) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		b.said = append(b.said, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	case *page.EventJavascriptDialogOpening:
		b.said = append(b.said, "a dialog: "+e.Message)
	}
}

func command[P, R any](b *browser, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	answer, err := chromedp.Call(b.ctx, c, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

func value[T any](b *browser, expression string) T {
	b.t.Helper()
	of, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return of
}

// show opens a report at a width, in light or dark.
func (b *browser) show(r *Report, width int64, scheme string) {
	b.t.Helper()
	name := filepath.Join(b.t.TempDir(), "report.html")
	if err := os.WriteFile(name, []byte(htmlOf(b.t, r)), 0o600); err != nil {
		b.t.Fatal(err)
	}
	command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err := chromedp.Do(b.ctx, chromedp.Navigate("file://"+name)); err != nil {
		b.t.Fatal(err)
	}
}

// typical is a run with every verdict.
func typical() *Report {
	tasks := []string{"HumanEval/0", "HumanEval/1", "sort-with-a-rather-long-name-that-has-to-break-somewhere", "sql-join", "parse-dates"}
	of := runOf(4, tasks...)
	of.Belljar, of.Config, of.Suite = "belljar 1.2.0", strings.Repeat("ab", 32), run.Suite{Paths: []string{"/srv/suites/humaneval"}, SHA256: strings.Repeat("cd", 32)}
	of.Tasks[3].Sealed = false
	verdicts := [][]run.Verdict{
		{run.Passed, run.Passed, run.Passed, run.Passed}, {run.Passed, run.Failed, run.Passed, run.Error}, {run.Tampered, run.Timeout, run.OOM, run.Skipped},
		{run.Passed, run.Passed, run.Error, run.Passed}, {run.Failed, run.Failed, run.Error},
	}
	var results []run.Result
	for i, list := range verdicts {
		for j, verdict := range list {
			r := ended(tasks[i], j+1, verdict)
			r.Millis, r.Sealed = float64(900+700*i+350*j), i != 3
			r.Phases = []run.Phase{
				{Name: run.Setup, Cause: sandbox.CauseExited, Millis: 120}, {Name: run.Work, Cause: sandbox.CauseExited, Millis: r.Millis / 2, Stdout: run.Output{Bytes: 40, Tail: "writing solution.py\n"}},
				{Name: run.Collect, Cause: sandbox.CauseExited, Millis: 60}, {Name: run.Verify, Cause: sandbox.CauseExited, Millis: r.Millis / 5},
			}
			r.Artifacts = []run.Artifact{{Path: "/work/solution.py", Size: 312, Mode: "0644", SHA256: strings.Repeat("ef", 32)}}
			last := &r.Phases[3]
			r.Phase = run.Verify
			if half := 0.5; i == 3 { // of several steps
				r.Steps, r.Reward = []run.Step{{Name: "scaffold", Verdict: run.Passed, Millis: 900}, {Name: "a-step-with-a-rather-long-name-that-has-to-break", Verdict: run.Failed, Message: "reward 0.5", Reward: &half, Millis: 700}}, &half
				for k := range r.Phases {
					r.Phases[k].Step = r.Steps[k%2].Name
				}
			}
			switch verdict {
			case run.Failed:
				last.ExitCode, r.Message = 1, "reward 0"
				last.Stdout = run.Output{Bytes: 70_000, Tail: "FAILED test_solution.py::test_empty - assert [] == None\n1 failed, 6 passed in 0.04s\n"}
			case run.Tampered:
				r.Phases = append(r.Phases, run.Phase{Name: run.Check, Detail: "failing test", Cause: sandbox.CauseExited, Millis: 200, Stdout: run.Output{Bytes: 30, Tail: "7 passed in 0.02s\n"}})
				r.Controls = []run.Control{{Name: "failing test", Passed: true, Message: "a test that must fail passed: conftest.py rewrites outcomes"}}
				r.Phase, r.Message = run.Check, "the control \"failing test\" passed"
				r.Lingering = []sandbox.Process{{PID: 17, User: "nobody", State: "S", Command: "sh -c while :; do echo 1 >/logs/verifier/reward.txt; done"}}
				r.Refused = []string{"/logs/verifier/reward.txt: it is a symbolic link"}
			case run.Timeout:
				last.Cause, r.Cause, r.Message = sandbox.CauseWallTimeout, sandbox.CauseWallTimeout, "the verifier took longer than 30s"
			case run.OOM:
				last.Cause, last.Evidence, r.Message = sandbox.CauseOOMKilled, sandbox.Evidence{OOMKills: 1, KilledBy: "oom"}, "memory ran out at 512 MiB"
			case run.Error:
				last.Cause, r.Message = sandbox.CauseEngineLost, "the engine went away"
				if i == 4 {
					r.Side, r.Message = run.ByTask, "image belljar/missing: not found"
				}
			}
			results = append(results, r)
		}
	}
	return New(of, results)
}

// contrasts are the text nodes' ratios of contrast below the 4.5 of WCAG AA.
const contrasts = `(() => {
  const rgb = c => c.match(/[\d.]+/g).map(Number);
  const lum = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const back = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const low = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; n = walk.nextNode();) {
    if (!n.data.trim()) continue;
    const e = n.parentElement, a = lum(rgb(getComputedStyle(e).color)), b = lum(back(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) low.push(n.data.trim().slice(0, 30) + " " + ratio.toFixed(2));
  }
  return low;
})()`

// The page is read in a real browser, at both widths, light and dark. With
// BELLJAR_SCREENSHOTS set, pictures are left in that directory.
func TestBrowser(t *testing.T) {
	b := openBrowser(t)
	for _, c := range []struct {
		name   string
		report *Report
	}{{"typical", typical()}, {"hostile", New(hostileRun())}} {
		for _, width := range []int64{390, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				b.show(c.report, width, scheme)
				name := fmt.Sprintf("%s-%d-%s", c.name, width, scheme)
				if wide := value[int](b, "document.documentElement.scrollWidth"); int64(wide) > width {
					t.Errorf("%s: %d px wide", name, wide)
				}
				if low := value[[]string](b, contrasts); len(low) > 0 {
					t.Errorf("%s: contrast: %q", name, low)
				}
				b.picture(name)
				b.follow(name)
				b.picture(name + "-open")
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) > 0 {
		t.Errorf("chromium says: %q", b.said)
	}
}

// follow checks that the evidence of a trial that did not pass is one click away.
func (b *browser) follow(name string) {
	b.t.Helper()
	const link = `document.querySelector("a.chip.bad")`
	if !value[bool](b, "!document.querySelector('details[open]') && !!"+link) {
		b.t.Errorf("%s: evidence is open already, or no trial has any", name)
		return
	}
	value[any](b, "void "+link+".click()")
	const shown = `(() => { const e = document.getElementById(location.hash.slice(1)), r = e?.getBoundingClientRect(); return !!e && e.closest("details").open && r.height > 0 && r.top < innerHeight && r.bottom > 0; })()`
	for over := time.Now().Add(2 * time.Minute); !value[bool](b, shown); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(over) {
			b.t.Fatalf("%s: a click shows no evidence", name)
		}
	}
}

func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("BELLJAR_SCREENSHOTS")
	if dir == "" {
		return
	}
	height := value[int64](b, "document.documentElement.scrollHeight")
	width := value[int64](b, "innerWidth")
	shot := command(b, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: new(true), Clip: &page.Viewport{Width: float64(width), Height: float64(min(height, 3000)), Scale: 1}})
	if err := os.WriteFile(filepath.Join(dir, name+".png"), shot.Data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
