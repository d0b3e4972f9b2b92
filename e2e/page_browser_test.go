package e2e

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

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab is the one tab of a browser that looks at the page of a server.
type tab struct {
	root *testing.T // of the whole browser
	t    *testing.T // of the case
	ctx  context.Context
	s    *attacked

	mu       sync.Mutex
	problems []string // errors on the console, exceptions, violations of the page's policy
}

// openTab starts Chromium, which ends with the test.
func openTab(t *testing.T, s *attacked) *tab {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no chromium: see scripts/setup")
		}
		t.Skip("NOT TESTED: there is no chromium")
	}
	home := t.TempDir() // it writes to others than its profile, too
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.UserDataDir(filepath.Join(home, "profile")),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home), chromedp.WSURLReadTimeout(patience))
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	b := &tab{root: t, t: t, s: s}
	ctx, end := chromedp.NewContext(allocator, chromedp.WithListener(b.heard))
	b.ctx = ctx
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("ending chromium: %v", err)
		}
		end()
		release()
		chromedp.FromContext(ctx).Allocator.Wait() // its directory is in use until then
	})
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	return b
}

// heard collects what went wrong in the page.
func (b *tab) heard(event any) {
	said := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said = asJSON(e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		said = fmt.Sprintf("console.%s %s", e.Type, asJSON(e.Args))
	case *log.EventEntryAdded:
		said = fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	}
	if said != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, said)
	}
}

// quiet checks that nothing went wrong but what is expected, such as requests that the
// server refused. It returns how much that was.
func (b *tab) quiet(expected ...string) (went int) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, said := range b.problems {
		known := false
		for _, e := range expected {
			known = known || strings.Contains(said, e)
		}
		if !known {
			b.t.Errorf("in the browser: %s", said)
		}
		went++
	}
	b.problems = nil
	return went
}

// do runs an action that returns nothing.
func (b *tab) do(action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, action); err != nil {
		b.t.Fatal(err)
	}
}

// call is a command to the browser.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	answer, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// js is the value of an expression.
func js[T any](b *tab, expression string) (value T) {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%.300s: %v", expression, err)
	}
	return value
}

// until waits for a condition in the page.
func (b *tab) until(condition string) {
	b.t.Helper()
	over := time.Now().Add(patience)
	for !js[bool](b, "!!("+condition+")") {
		if time.Now().After(over) {
			b.t.Fatalf("still not: %s\nthe page says: %.3000s", condition, js[string](b, "document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shows waits for a text in a part of the page.
func (b *tab) shows(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%s)?.innerText.includes(%s)", asJSON(selector), asJSON(text)))
}

func (b *tab) open() {
	b.t.Helper()
	b.do(chromedp.Navigate("http://" + b.s.address + "/ui"))
}

// login types a token, and waits until the page shows what it may.
func (b *tab) login(name string) {
	b.t.Helper()
	js[bool](b, "sessionStorage.clear() || true")
	b.open()
	b.until("document.activeElement.id === 'token'")
	b.do(chromedp.KeyEvent(tokens[name] + kb.Enter))
	b.until("!document.querySelector('#board').hidden")
	b.shows("#who", name)
}

// tabTo presses Tab until a part of the page has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 200 {
		if js[bool](b, fmt.Sprintf("document.activeElement.matches(%s)", asJSON(selector))) {
			return
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("Tab does not lead to %s", selector)
}

// looks is how a person has set up the screen.
func (b *tab) looks(width int64, scheme string) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}
