package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"

	"belljar/sandbox"
	"belljar/view"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The page in a browser, from the login to the end of the token. The cases share a server
// and a browser, and each begins with what the one before left.
func TestPage(t *testing.T) {
	t.Parallel()
	s := besiegeTCP(t, "pool: {min: 1, max: 2}", "policy:", "  ask_timeout: 10m", "  rules:", "    - {name: push, commands: [git push], decision: ask, reason: it publishes}")
	b := openTab(t, s)
	for _, c := range []struct {
		name string
		do   func(*tab, *attacked)
	}{
		{"login", pageLogin},
		{"hostile output", pageHostile},
		{"escapes", pageEscapes},
		{"a live tail", pageTail},
		{"ends with evidence", pageEnds},
		{"answers by keyboard", pageAnswers},
		{"looks", pageLooks},
		{"restart", pageRestart},
		{"scopes", pageScopes},
		{"the token goes", pageRefused},
		{"without tokens", pageLocal},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			b.t, s.t = t, t
			defer func() { b.t, s.t = b.root, b.root }()
			boss := s.as("boss")
			c.do(b, boss)
		}) {
			break
		}
	}
}

// The page asks for a token, says why one is not taken, and keeps it to this tab.
func pageLogin(b *tab, _ *attacked) {
	b.open()
	b.until("document.activeElement.id === 'token'")
	b.do(chromedp.KeyEvent("a-wrong-token-0123456789" + kb.Enter))
	b.shows("#reason", "the token is not known")
	b.until("document.activeElement.id === 'token' && sessionStorage.length === 0")
	b.do(chromedp.KeyEvent(tokens["boss"] + kb.Enter))
	b.shows("#who", "boss · admin")
	b.shows("#running", "Nothing runs.")
	b.shows("#ends", "Nothing has ended yet.")
	b.shows("#waiting", "Nothing waits.")
	b.shows("#sessions", "No sessions.")
	b.shows("#load", "Pool default")
	if kept := js[string](b, "JSON.stringify([location.href, localStorage.length, document.cookie, history.state])"); strings.Contains(kept, tokens["boss"]) || !strings.HasSuffix(kept, `/ui/",0,"",null]`) {
		b.t.Errorf("the browser keeps %s", kept)
	}
	if log := b.s.log.String(); !strings.Contains(log, `"http://`+b.s.address+`/ui/"`) {
		b.t.Errorf("the log does not say where the page is: %s", log)
	}
	b.quiet("401 (Unauthorized)")
}

// hostilePrint prints what browsers, terminals and people are fooled with.
const hostilePrint = `printf '<script>document.title="owned"</script><img src=x onerror="document.title=1"><b>bold</b>\n'; ` +
	`printf '\033]0;owned\007\033[2J\033[31mred\033[0m\n\342\200\256gnp.exe\000end\n\377\n'; `

// pageHostile: what a command, its text and its caller's words say stays text.
func pageHostile(b *tab, boss *attacked) {
	// One that has ended, and one that runs on.
	long := object{"command": hostilePrint + `head -c 1000000 /dev/zero | tr '\0' a; echo; ` + hostilePrint, "description": "<img src=x onerror=document.title=1>\u202e"}
	r := boss.runs(long)
	runs := boss.accepts(object{"command": "# <script>document.title='owned'</script>\n" + hostilePrint + "cat", "stdin_open": true})
	out := "#running .output"
	b.shows(out, `<script>document.title="owned"</script><img src=x onerror="document.title=1"><b>bold</b>`)
	b.shows(out, `\x1b]0;owned\x07\x1b[2Jred`)
	b.shows(out, `\u202egnp.exe\x00end`)
	b.shows("#running .name", `# <script>document.title='owned'</script> …`)
	boss.want(http.StatusOK, nil, http.MethodPost, "/v1/executions/"+runs+"/stdin?eof=true", "")
	boss.end(runs)
	b.shows("#ends", "<script>")
	of := fmt.Sprintf(`#ended-%s`, r.ID)
	toggle := fmt.Sprintf("document.querySelector('[aria-controls=%q]').click() ?? true", strings.TrimPrefix(of, "#"))
	js[bool](b, toggle)
	b.shows(of, "The last 64 KiB of ")
	b.shows(of, `<img src=x onerror=document.title=1>\u202e`)
	b.shows(of+" .output", `\x1b]0;owned\x07`)
	size := js[int](b, fmt.Sprintf("document.querySelector('%s .output').textContent.length", of))
	for shown := size; shown < 1_000_000; shown = size {
		js[bool](b, fmt.Sprintf("document.querySelector('%s button').click() ?? true", of))
		b.until(fmt.Sprintf("document.querySelector('%s .output').textContent.length > %d", of, shown))
		size = js[int](b, fmt.Sprintf("document.querySelector('%s .output').textContent.length", of))
	}
	b.shows(of, "All of it: ")
	if found := js[string](b, "JSON.stringify([document.title, document.querySelectorAll('#board img, #board b:not(.value b), #board script, body > script').length, document.querySelectorAll('.output :not(.piece)').length])"); found != `["belljar",0,0]` {
		b.t.Errorf("the title, elements from output, elements in it: %s", found)
	}
	js[bool](b, toggle)
	b.quiet()
	// What is quiet here would not be, if output were markup.
	js[bool](b, "(() => { try { document.createElement('p').innerHTML = '<b>bold</b>' } catch (e) { return e instanceof TypeError } })()")
	js[bool](b, "(() => { const s = document.createElement('script'); s.append('document.title = 1'); document.body.append(s); s.remove() })() ?? document.title === 'belljar'")
	if b.quiet("TrustedHTML", "TrustedScript", "Content Security Policy") == 0 {
		b.t.Error("no violation of the page's policy is reported")
	}
}

// escapedChars are the characters that the page makes visible between two letters, as ranges.
const escapedChars = `(async () => {
	const { visible } = await import('./text.js')
	const ranges = []
	for (let c = 0; c <= 0xe0fff; c = c === 0x1ffff ? 0xe0000 : c + 1) {
		const text = 'a' + String.fromCodePoint(c) + 'b'
		if (visible(text) === text) continue
		if (ranges.at(-1)?.[1] === c - 1) ranges.at(-1)[1] = c
		else ranges.push([c, c])
	}
	return ranges
})()`

// pageEscapes: the page makes visible what belljar does on a terminal, in the planes that
// have such characters. Their versions of Unicode differ in what is not assigned yet.
func pageEscapes(b *tab, _ *attacked) {
	ranges, err := chromedp.Run(b.ctx, chromedp.Evaluate[[][2]rune](escapedChars, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	var escaped [0xe1000]bool
	for _, r := range ranges {
		for c := r[0]; c <= r[1]; c++ {
			escaped[c] = true
		}
	}
	for c := rune(0); int(c) < len(escaped); c++ {
		if c == 0x20000 {
			c = 0xe0000
		}
		text := "a" + string(c) + "b"
		ours := view.Safe(text) != text || !utf8.ValidRune(c)
		switch {
		case ours && !escaped[c] && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			b.t.Errorf("the page shows %U as it is", c)
		case !ours && escaped[c] && !unicode.Is(unicode.Variation_Selector, c):
			b.t.Errorf("the page escapes %U", c)
		}
	}
}

// pageTail: what a command writes comes into the page, which stays at its end.
func pageTail(b *tab, boss *attacked) {
	id := boss.accepts(object{"command": "cat", "stdin_open": true})
	b.shows("#running", "No output yet.")
	at := 0
	for i := range 2 {
		line := strings.Repeat(fmt.Sprintf("line %d of many\n", i), 40)
		boss.want(http.StatusOK, nil, http.MethodPost, fmt.Sprintf("/v1/executions/%s/stdin?offset=%d", id, at), line)
		at += len(line)
		b.shows("#running .output", fmt.Sprintf("line %d of many", i))
		b.until("(o => o.scrollTop > 0 && o.scrollHeight - o.scrollTop - o.clientHeight < 24)(document.querySelector('#running .output'))")
	}
	// Of much more, only the end is kept, and the page still has it all at once.
	more := strings.Repeat("0123456789abcde\n", 20_000) + "the end\n"
	boss.want(http.StatusOK, nil, http.MethodPost, fmt.Sprintf("/v1/executions/%s/stdin?offset=%d", id, at), more)
	b.shows("#running .output", "the end")
	if size := js[int](b, "document.querySelector('#running .output').textContent.length"); size > 64<<10 {
		b.t.Errorf("the tail has %d characters", size)
	}
	boss.want(http.StatusAccepted, nil, http.MethodDelete, "/v1/executions/"+id+"?kill=true", "")
	b.until("document.querySelectorAll('#running details').length === 0")
	b.shows("#ends", "canceled")
	b.quiet()
}

// pageEnds: how a command ended is in its row, with what shows it.
func pageEnds(b *tab, boss *attacked) {
	for _, c := range []struct {
		id   string
		want []string
	}{
		{boss.accepts(object{"command": "exit 7"}), []string{"error", "exit 7"}},
		{boss.accepts(object{"command": "kill -SEGV $$"}), []string{"signaled", "SIGSEGV", "exit 139"}},
		{boss.accepts(object{"command": "sleep 100 & sleep 101", "idle_timeout_seconds": 5}), []string{"idle timeout", "2 left running"}},
		{boss.accepts(object{"command": "tail /dev/zero", "limits": object{"memory_bytes": 64 << 20}}), []string{"oom killed", "1 process killed: out of memory"}},
	} {
		for _, text := range c.want {
			b.shows("tbody:has(#ended-"+c.id+")", text)
		}
	}
	b.quiet()
}

// asksFor begins a command that needs an approval, and returns where its status goes.
func asksFor(s *attacked, command string) <-chan int {
	answered := make(chan int, 1)
	go func() {
		answer, err := s.send(s.t.Context(), http.MethodPost, "/v1/executions", asJSON(object{"command": command, "description": "publish it"}))
		if err != nil {
			answered <- 0
			return
		}
		answer.Body.Close()
		answered <- answer.StatusCode
	}()
	return answered
}

// pageAnswers: a person approves and denies with the keyboard alone, and is told of what
// waits.
func pageAnswers(b *tab, boss *attacked) {
	const script = "true || git push origin main"
	for _, c := range []struct {
		answer string
		status int
	}{{"once", http.StatusOK}, {"deny", http.StatusForbidden}} {
		answered := asksFor(boss, script)
		b.shows("article.asks", script)
		b.shows("article.asks mark", "git push origin main")
		b.shows("article.asks", `Rule "push" asks: it publishes`)
		b.shows("article.asks", "publish it")
		b.shows("#news", "A command waits for your answer: "+script)
		b.until("document.title === '(1) belljar'")
		b.tabTo("article.asks button[data-answer=" + c.answer + "]")
		// The focus stays while the page looks again.
		before := js[string](b, "document.querySelector('article.asks .deadline').innerText")
		b.until(fmt.Sprintf("document.querySelector('article.asks .deadline').innerText !== %s", asJSON(before)))
		b.until("document.activeElement.matches('article.asks button[data-answer=" + c.answer + "]')")
		b.do(chromedp.KeyEvent(kb.Enter))
		if status := <-answered; status != c.status {
			b.t.Errorf("%s: status %d, want %d", c.answer, status, c.status)
		}
		b.until("!document.querySelector('article.asks') && document.title === 'belljar' && document.activeElement.id === 'waiting-title'")
	}
	b.shows("#ends", "approved once by boss")
	b.quiet()
}

// faint are the texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, 1.4.3).
const faint = `(() => {
	const parts = c => c.match(/[\d.]+/g).map(Number)
	const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
	const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b)
	const behind = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c[3] !== 0) return c } return [255, 255, 255] }
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	const bad = []
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement
		if (!texts.currentNode.data.trim() || !e.checkVisibility() || e.closest('.heard, noscript')) continue
		const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x)
		if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(texts.currentNode.data.slice(0, 40))
	}
	return bad
})()`

// pageLooks: with something in every part, nothing is cut off at both widths, text can be
// read in both schemes, and everything that a screen reader stops at has a name.
func pageLooks(b *tab, boss *attacked) {
	name := boss.sessionName()
	boss.runs(object{"command": "sleep 1234 >/dev/null 2>&1 &", "session": name})
	id := boss.accepts(object{"command": "echo " + strings.Repeat("long", 100) + "; cat", "stdin_open": true, "description": strings.Repeat("word", 50)})
	answered := asksFor(boss, "git push "+strings.Repeat("x", 300))
	b.shows("article.asks", "git push")
	b.shows("#running .output", "longlong")
	b.shows("#sessions table", "sleep 1234")
	b.shows("#sessions", "1 process left by commands that ended")
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.looks(width, scheme)
			b.until(fmt.Sprintf("innerWidth === %d && matchMedia('(prefers-color-scheme: %s)').matches", width, scheme))
			if wide := js[int](b, "document.documentElement.scrollWidth"); wide > int(width) {
				b.t.Errorf("%d pixels wide at %d", wide, width)
			}
			if bad := js[[]string](b, faint); len(bad) > 0 {
				b.t.Errorf("%d, %s: hardly to be read: %q", width, scheme, bad)
			}
			b.names()
		}
	}
	b.looks(1280, "light")
	b.tabTo("article.asks button[data-answer=deny]")
	b.do(chromedp.KeyEvent(" "))
	<-answered
	boss.want(http.StatusAccepted, nil, http.MethodDelete, "/v1/executions/"+id+"?kill=true", "")
	boss.end(id)
	boss.want(http.StatusNoContent, nil, http.MethodDelete, "/v1/sessions/"+name, "")
	b.quiet()
}

// named are the roles of what a screen reader names.
var named = []string{"button", "link", "textbox", "region", "article", "heading", "table", "image", "columnheader", "rowheader", "group"}

// names checks the names in the accessibility tree.
func (b *tab) names() {
	b.t.Helper()
	found := map[string]int{}
	for _, node := range call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		role, name := strings.Trim(string(node.Role.Value), `"`), ""
		if node.Name != nil {
			name = strings.Trim(string(node.Name.Value), `" `)
		}
		found[role]++
		if slices.Contains(named, role) && name == "" {
			b.t.Errorf("a %s has no name", role)
		}
	}
	for _, role := range []string{"banner", "main", "region", "heading", "button", "table", "columnheader", "rowheader", "article", "status"} {
		if found[role] == 0 {
			b.t.Errorf("no %s: %v", role, found)
		}
	}
}

// pageRestart: without a server the page keeps what it shows, and says so; with the next
// one it goes on.
func pageRestart(b *tab, boss *attacked) {
	b.s.stop(syscall.SIGTERM)
	b.shows("#connection", "The server does not answer. What you see is from ")
	b.shows("#ends", "exit 7")
	b.s.t = b.root // it is to run on after this case
	b.s.start()
	b.until("document.querySelector('#connection').innerText === ''")
	boss.client = b.s.client
	r := boss.runs(object{"command": "echo after the restart"})
	b.shows("tbody:has(#ended-"+r.ID+")", "echo after the restart")
	b.quiet("net::ERR_", "503 (Service Unavailable)")
}

// pageScopes: what a token may not do is not there, and the page says why.
func pageScopes(b *tab, boss *attacked) {
	answered := asksFor(boss.as("ann"), "git push")
	b.shows("article.asks", "git push")
	for who, notes := range map[string]map[string]string{
		"ann":    {"#waiting": "Hidden: this token may not see or answer approvals.", "#running": "waits for an approval", "#load": "Hidden: ", "#summary": "Nothing of yours runs"},
		"reader": {"#waiting": "Hidden: ", "#running": "Nothing of reader runs.", "#ends": "Nothing has ended yet.", "#load": "Hidden: "},
		"judge":  {"article.asks": "Allow once", "#running": "Hidden: ", "#ends": "Hidden: ", "#sessions": "Hidden: ", "#load": "Hidden: "},
	} {
		b.login(who)
		for part, note := range notes {
			b.shows(part, note)
		}
		if n := js[int](b, "document.querySelectorAll('[data-answer]').length"); who != "judge" && n != 0 {
			b.t.Errorf("%s has %d buttons", who, n)
		}
	}
	b.login("judge")
	b.tabTo("article.asks button[data-answer=deny]")
	b.do(chromedp.KeyEvent(kb.Enter))
	if status := <-answered; status != http.StatusForbidden {
		b.t.Errorf("status %d", status)
	}
	b.quiet("401 (Unauthorized)")
}

// pageRefused: when the server takes the token no more, the page asks for another, and why.
func pageRefused(b *tab, boss *attacked) {
	text := fmt.Sprintf("tokens: [{name: boss, token: %s, scopes: [admin]}]\n", tokens["boss"])
	if err := os.WriteFile(filepath.Join(b.s.dir, "tokens"), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.s.cmd.Process.Signal(syscall.SIGHUP)
	b.shows("#reason", "The server refused the token: the token is not known")
	b.until("document.querySelector('#board').hidden && sessionStorage.length === 0")
	b.do(chromedp.KeyEvent(tokens["boss"] + kb.Enter))
	b.shows("#who", "boss")
	if r := boss.runs(object{"command": "true"}); r.Status != sandbox.StatusSuccess {
		b.t.Errorf("%+v", r)
	}
	b.quiet("401 (Unauthorized)")
}

// pageLocal: behind a proxy of the unix socket, where no one needs a token, the page asks
// for none.
func pageLocal(b *tab, _ *attacked) {
	s := besiegeOne(b.t, watched, "", "pool: {min: 0, max: 0}")
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: s.client.Transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: "localhost"})
		r.Out.Host = r.In.Host
	}})
	defer proxy.Close()
	b.do(chromedp.Navigate(proxy.URL + "/ui"))
	b.shows("#who", "local · run, read, approve, metrics, admin")
	b.shows("#load", "No pool.")
	b.until("document.querySelector('#login').hidden && document.querySelector('#leave').hidden")
	b.do(chromedp.Navigate("about:blank"))
	b.quiet()
}
