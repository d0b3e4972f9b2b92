//go:build corpora

package policy

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// The corpora belong to others, so they are not copied here. The lessons from them
// are in testdata/escapes.txt and testdata/agents.txt.
var (
	gtfobinsDir = flag.String("gtfobins", os.Getenv("GTFOBINS"), "a clone of GTFOBins")
	nl2bashFile = flag.String("nl2bash", os.Getenv("NL2BASH"), "data/bash/all.cm of a clone of nl2bash")
)

const howTo = `get the corpora first:
	git clone --depth 1 https://github.com/GTFOBins/GTFOBins.github.io /tmp/gtfobins
	git clone --depth 1 https://github.com/TellinaTool/nl2bash /tmp/nl2bash
	go test -tags corpora ./policy -run Corpora -bench Corpora -v -gtfobins /tmp/gtfobins -nl2bash /tmp/nl2bash/data/bash/all.cm`

// gtfobin is one file of GTFOBins: what a program can be made to do.
type gtfobin struct {
	Alias     string
	Functions map[string][]gtfoExample
}

// gtfoExample is one way to do it. A context (sudo, suid) may have code of its own.
type gtfoExample struct {
	Code     string
	Contexts map[string]*struct{ Code string }
}

// snippet is a script of GTFOBins, and what it demonstrates.
type snippet struct{ program, function, script string }

func readGTFOBins(t *testing.T) (snippets []snippet) {
	t.Helper()
	if *gtfobinsDir == "" {
		t.Fatalf("-gtfobins is not set; %s", howTo)
	}
	files, err := filepath.Glob(filepath.Join(*gtfobinsDir, "_gtfobins", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file in %s/_gtfobins (%v); %s", *gtfobinsDir, err, howTo)
	}
	bins := map[string]gtfobin{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var bin gtfobin
		if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&bin); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		bins[strings.TrimSuffix(filepath.Base(file), ".md")] = bin
	}
	for _, program := range slices.Sorted(maps.Keys(bins)) {
		snippets = append(snippets, snippetsOf(program, bins)...)
	}
	return snippets
}

// snippetsOf are a program's snippets. A program that is an alias of another
// has that program's snippets, under its own name.
func snippetsOf(program string, bins map[string]gtfobin) (snippets []snippet) {
	bin, name := bins[program], func(code string) string { return code }
	if bin.Alias != "" {
		alias := bin.Alias
		for bins[alias].Alias != "" {
			alias = bins[alias].Alias
		}
		other := regexp.MustCompile(`(^|[\s|;/])` + regexp.QuoteMeta(alias) + `\b`)
		name = func(code string) string { return other.ReplaceAllString(code, "${1}"+program) }
		bin = bins[alias]
	}
	for _, function := range slices.Sorted(maps.Keys(bin.Functions)) {
		for _, example := range bin.Functions[function] {
			scripts := map[string]bool{}
			for _, code := range example.codes() {
				for _, script := range asRun(name(code)) {
					scripts[script] = true
				}
			}
			for _, script := range slices.Sorted(maps.Keys(scripts)) {
				snippets = append(snippets, snippet{program, function, script})
			}
		}
	}
	return snippets
}

func (e gtfoExample) codes() []string {
	codes := []string{e.Code}
	for _, context := range e.Contexts {
		if context != nil {
			codes = append(codes, context.Code)
		}
	}
	return slices.DeleteFunc(codes, func(code string) bool { return strings.TrimSpace(code) == "" })
}

var sudoOrHere = regexp.MustCompile(`(?m)^(sudo (-\S+ )*|\./)`)

// asRun is the snippet with the plain program name: older versions
// write "sudo tar …" and "./tar …", where a rule would see another name.
func asRun(code string) []string {
	return []string{code, sudoOrHere.ReplaceAllString(code, "")}
}

// plainReaders are the programs that a readonly snippet may use: programs
// that only print what they read, and for others the arguments with
// which they only print. Nothing here comes from the tested tables.
var plainReaders = map[string]string{
	"awk": "//", "mawk": "//", "gawk": "//", "nawk": "//", "original-awk": "//",
	"bash": "-c -p", "date": "-f", "file": "-f -m", "find": "-exec cat {} ;", "git": "diff", "gzip": "-c -d", "sed": "", "shuf": "-z",
	"sort": "-m", "uniq": "", "xargs": "-a -0", "xxd": "-r", "busybox": "cat",
}

func init() { // these only print, with any arguments
	for _, name := range strings.Fields(`base32 base64 basenc cat cmp column comm cut diff echo egrep expand fgrep fmt fold getent grep head join jq
		ls nl od paste pr rev strings tac tail unexpand w wc zcat zgrep`) {
		plainReaders[name] = "*"
	}
}

// onlyPrints reports whether the script only uses plain readers, without a
// file to write to.
func onlyPrints(script string) bool {
	file, err := parse(script, langBash)
	if err != nil {
		return false
	}
	prints := true
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Redirect:
			prints = prints && n.Op == syntax.RdrIn
		case *syntax.FuncDecl, *syntax.DeclClause, *syntax.CoprocClause, *syntax.ProcSubst, *syntax.Assign:
			prints = false
		case *syntax.CallExpr:
			prints = prints && plainCall(n.Args)
		}
		return prints
	})
	return prints
}

func plainCall(args []*syntax.Word) bool {
	if len(args) == 0 {
		return true // $(<file)
	}
	words, err := expand.Fields(nil, args...)
	if err != nil { // one holds $(<file)
		return args[0].Lit() == "echo"
	}
	if len(words) == 0 {
		return false
	}
	plain, known := plainReaders[words[0]]
	if !known || plain == "*" {
		return known
	}
	paths := 0
	for i, word := range words[1:] {
		if words[0] == "bash" && words[i] == "-c" {
			return len(words) == i+2 && onlyPrints(word)
		}
		switch {
		case slices.Contains(strings.Fields(plain), word):
		case word == "" && words[0] == "sed":
		case strings.HasPrefix(word, "/"):
			paths++
		default:
			return false
		}
	}
	switch words[0] {
	case "uniq", "xxd": // the second operand is written
		return paths <= 1
	case "gzip":
		return paths == 0 || slices.Contains(words, "-c")
	}
	return true
}

// reads reports whether a snippet may be allowed: its purpose is to read a
// file, and it does nothing else.
func (s snippet) reads() bool {
	switch {
	case s.function == "file-read":
	case s.program == "busybox" && s.function == "inherit": // for its cat
	case s.program == "getent" && s.function == "privilege-escalation": // prints the hashes, if root asks
	default:
		return false
	}
	return onlyPrints(s.script)
}

// TestCorporaGTFOBins: none of the ways in which GTFOBins has a program run
// another, write a file or talk to a host is readonly.
func TestCorporaGTFOBins(t *testing.T) {
	sets := map[string]*CommandPolicy{
		"readonly, posix": bundled(t, "readonly", ShellPOSIX), "readonly, bash": bundled(t, "readonly", ShellBash),
		"git-readonly, posix": bundled(t, "git-readonly", ShellPOSIX), "git-readonly, bash": bundled(t, "git-readonly", ShellBash),
	}
	programs, read, lines := map[string]bool{}, map[string]bool{}, 0
	snippets := readGTFOBins(t)
	for _, s := range snippets {
		programs[s.program] = true
		for name, p := range sets {
			v := p.Judge(s.script, "")
			checkVerdict(t, s.script, v)
			if v.Decision == Deny {
				continue
			}
			if read[s.script] = true; !s.reads() {
				t.Errorf("%s: %s of %s, %q, is %s: %s", name, s.function, s.program, s.script, v.Decision, v.Reason)
			}
		}
		for line := range strings.Lines(s.script) {
			if !strings.Contains(s.script, "\n") {
				break // judged already
			}
			lines++
			for name, p := range sets {
				// Some are typed into the program, or show its output.
				if v := p.Judge(line, ""); v.Decision != Deny && !onlyPrints(line) {
					t.Errorf("%s: %q of %s is %s: %s", name, line, s.program, v.Decision, v.Reason)
				}
			}
		}
	}
	if len(programs) < 470 || len(snippets) < 1000 {
		t.Errorf("%d snippets of %d programs: is that all of GTFOBins?", len(snippets), len(programs))
	}
	t.Logf("%d snippets of %d programs, and %d lines of the longer ones; %d only read and are allowed", len(snippets), len(programs), lines, len(read))
	for _, script := range slices.Sorted(maps.Keys(read)) {
		t.Logf("reads: %s", script)
	}
}

func readNL2Bash(tb testing.TB) []string {
	tb.Helper()
	if *nl2bashFile == "" {
		tb.Fatalf("-nl2bash is not set; %s", howTo)
	}
	data, err := os.ReadFile(*nl2bashFile)
	if err != nil {
		tb.Fatalf("%v; %s", err, howTo)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// TestCorporaNL2Bash: every line has a decision, and one that does not
// parse is denied with its position.
func TestCorporaNL2Bash(t *testing.T) {
	lines := readNL2Bash(t)
	for _, shell := range []string{ShellPOSIX, ShellBash} {
		p := bundled(t, "readonly", shell)
		counts, unparsed := map[Decision]int{}, 0
		for _, line := range lines {
			v := p.Judge(line, "")
			checkVerdict(t, line, v)
			counts[v.Decision]++
			if parses(line, p.dialects()) {
				continue
			}
			if unparsed++; v.Decision != Deny || v.Span.Line < 1 || v.Span.Column < 1 {
				t.Errorf("%s: %q does not parse and is %s at %+v", shell, line, v.Decision, v.Span)
			}
		}
		t.Logf("%s: of %d lines %d allowed, %d asked about, %d denied, of which %d do not parse",
			shell, len(lines), counts[Allow], counts[Ask], counts[Deny], unparsed)
		if len(lines) < 12_000 || counts[Allow] < len(lines)/3 || unparsed > len(lines)/20 {
			t.Errorf("%s: too few", shell)
		}
	}
}

func parses(script string, dialects []syntax.LangVariant) bool {
	return !slices.ContainsFunc(dialects, func(lang syntax.LangVariant) bool {
		_, err := parse(script, lang)
		return err != nil
	})
}

// BenchmarkCorporaNL2Bash is how many lines a core judges in a second of CPU
// time, independent of other load on the machine.
func BenchmarkCorporaNL2Bash(b *testing.B) {
	lines := readNL2Bash(b)
	for _, shell := range []string{ShellPOSIX, ShellBash} {
		b.Run(shell, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the collector counts, too
			p := bundled(b, "readonly", shell)
			b.ReportAllocs()
			n, before := 0, cpuTime(b)
			for b.Loop() {
				p.Judge(lines[n%len(lines)], "")
				n++
			}
			b.ReportMetric(float64(n)/(cpuTime(b)-before).Seconds(), "decisions/core-s")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
