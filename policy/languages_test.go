package policy

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// language is one with several implementations, each of which
// may read a program differently than the policy does.
type language struct {
	program  string // as scripts call it
	programs map[string][]string
	hostile  map[string][]string // for each implementation what the tripwire catches
	payloads []string
	places   []string // where some read a payload as plain text
	rows     []string // programs that were wrongly allowed once, and similar ones
	args     [][]string
}

var awkLanguage = language{
	program:  "awk",
	programs: map[string][]string{"gawk": {"gawk"}, "mawk": {"mawk"}, "original-awk": {"original-awk"}, "busybox awk": {"busybox", "awk"}},
	payloads: []string{`system("evil")`, `print 1 > "w"`, `print "" | "evil"`, `"evil" | getline`, `printf "x" >> "w"`, `; system("evil");`, "\nsystem(\"evil\")\n", `"; system("evil"); "`, `/; system("evil"); /`, `#"; system("evil")`, ` > "w"`, `1e5system("evil")`, `0x1system("evil")`,
		`ARGV[1]="/inet/tcp/0/127.0.0.1/PORT"`, `getline < "/inet/tcp/0/127.0.0.1/PORT"`},
	places: strings.Split(strings.ReplaceAll(`BEGIN { @ }¦{ @ }¦"@"¦"\"@"¦"\\"@"¦"\@"¦/@/¦/"/@¦/"/ @ /"/¦@ /"/¦# @¦# @\¦#"~@¦@ #"¦@~#"¦x = "@"¦x = "@" y¦if (1) @¦if (1) /"/; @¦if (1 +~1) /"/; @ y=1; if (1) /"/¦if (1~) /"/; @ #"¦print 1 <~2 @¦print @¦print 1,~@¦print 1,2 @¦print (1) @¦print (1)(2) @¦print(1)@¦print "a" "@"¦`+
		`print a /@/ b¦a / b; @ / c¦1 /@/ 2¦x /= "@"; /¦x = 1 /2/ "@"¦(@)¦((@))¦x[@]¦x["@"]¦f(@)¦length @¦length > @¦length~> "w"; @¦print length > "w" @¦length /@/¦length / 2 /@/¦$1 /@/¦$NF /@/ 2¦i++ /@/ 2¦i++~@¦++i /@/¦! /@/¦!/"/ @¦$0 ~ /@/¦$0 !~ /"/ @¦/[/]@/¦/[\/]@/¦/[]/]@/¦/[^]/]@/¦/[[:alpha:]/]@/¦/[\]@/]/¦/a\/@/¦/@~/¦"@~"¦@,~@¦@ &&~@¦@ ||~@¦@ ?~1 :~2¦1 ? "@" : /@/¦@;@¦@~@¦@ @¦{@¦@}¦}~@¦;~@¦`+
		`function f(x) { @ } { f(1) }¦function f(x)~{ @ }¦for (;;@) break¦for (@;0;) ;¦for (i=0;i<2;i++) @¦for (k in x) @¦while (0) @¦do { @ } while (0)¦do @; while (0)~/"/ ; @¦while (x~) /@/¦else @¦if (0) x; else @¦/x/,/@/¦/x/,~/@/¦NR==1,"@"¦return @¦exit @¦delete x[@]¦getline @¦@load "@"¦@include "w"¦x = @/@/¦gsub(/@/, "@")¦gsub(/"/, "\"@")¦split($0, x, /@/)¦sub(/\//, "@")¦printf("%s", "@")¦printf("%s") @¦print a, b @¦print > "/dev/stderr"@¦print > "/dev/stderr" "@"¦print > "w@"¦print a > b ? c : d¦print (a > b)¦print x[1 > 2]¦switch (1) { case /@/: x }¦BEGINFILE { @ }¦END { @ }¦BEGIN~{ @ }¦1\~@¦"a"\~@¦/"/\~@¦x = 1 + \~@¦\@¦`+
		`'@'¦$@¦-@¦- /@/¦+ /@/¦1e@¦1e5@¦0x@¦1.@¦.5@¦x.@¦a::@¦a ~ b /@/¦a in b /@/¦(a) in b /@/¦") @ ("¦@ /"/ @¦)/"/@#"¦, /"/@ #"¦( /"/) @ #"¦x=y /"/; @ #"¦`+"\f@¦\r@¦\v@¦é@¦\"é@\"¦/é\\/@/", "~", "\n"), "¦"),
	rows: []string{
		"BEGIN{ if (1 +\n1) /\"/; system(\"evil\"); y=1; if(1) /\"/ }", "BEGIN { print 1 <\n2 > \"w\" }", "BEGIN{ x = 1 ?\n1 : 2; print 1 ?\n1 :\n2 > \"w\" }",
		"BEGIN { x = 1e5system(\"evil\") }", "BEGIN { x = 0xfsystem(\"evil\") }", "BEGIN { for (print 1 > \"w\"; 0;) ; }", "BEGIN { ARGV[1] = \"/inet/tcp/0/127.0.0.1/PORT\"; ARGC = 2 } 1", "BEGIN { SYMTAB[\"ARGV\"][1] = \"/inet/tcp/0/127.0.0.1/PORT\" } 1",
		"BEGIN { print 1, # ,\n2 > \"w\" }", "BEGIN { print \"a,\"\n} # > \"w\"", "/[/]\"/ { system(\"evil\") } # \"", "BEGIN { f = \"system\"; @f(\"evil\") }", "@load \"filefuncs\"; BEGIN { print 1 }", "BEGIN { print \"a\" > \"/dev/stderr\"; print 1 > \"/dev/stdout\" }",
		"BEGIN { while ((\"evil\" | getline x) > 0) print x }", "BEGIN { print 1 |& \"evil\" }", "BEGIN { printf(\"x\") > \"w\" }", "BEGIN { print(1)(2) > \"w\" }", "BEGIN { length /\"/; system(\"evil\") #\"/ }", "{ print $1 > $1 }",
	},
	args: [][]string{{"", "f"}, {"", "f"}, {"", "f"}, {"-F:", "", "f"}, {"-v", "x=system(\"evil\")", "", "f"}, {"-bv", "x=system(\"evil\")", "", "f"}, {"--posix", "", "f"}, {"-c", "", "f"}, {"--field-separator", "", "", "f"}, {"-L", "", "f"}, {"-e", "", "f"}, {"--", "", "f"}, {"", "f", "-f", "f"}, {"", "/inet/tcp/0/127.0.0.1/PORT"}, {"", "x=/inet/tcp/0/127.0.0.1/PORT", "f"}, {"-d", "", "f"}, {"-n", "", "f"}, {"-r", "", "f"}, {"-S", "", "f"}, {"-O", "", "f"}, {"-k", "", "f"}, {"-o", "", "f"}, {"-p", "", "f"}, {"-dw", "", "f"}, {"--profile=w", "", "f"}, {"--dump-variables=w", "", "f"}, {"--posix", "-F (x=system(\"evil\"))", "1", "f"}, {"--lint", "-v (x=system(\"evil\"))", "", "f"}, {"-b", "-F (x=system(\"evil\"))", "", "f"}, {"--re-interval", "-F", "BEGIN { system(\"evil\") }", "", "f"}},
}

var sedLanguage = language{
	program:  "sed",
	programs: map[string][]string{"GNU sed": {"sed"}, "busybox sed": {"busybox", "sed"}},
	payloads: []string{"e evil", "w w", "1e evil #", "s/a/evil/e", "s/a/b/w w", "\ne evil\n", "\nw w\n", ";e evil", ";w w", "}\ne evil", "/w w", "w w\n", "\\\nw w", "\nw w\\", "1w w", "W w"},
	places: strings.Split(strings.ReplaceAll(`a @¦a\~@¦a\@¦a\ @¦a\ ~@¦a \~ @¦a\\~@¦1i x\~@¦1i x\\~@¦1i x\\\~@¦1i\\~@¦1i\ \~@¦c x\\~@¦$a@¦{a @~}¦a x}@¦a x;@¦i\¬@¦a\¬@¦a¬@¦a x\¬@¦@¬@¦@\¬@¦@\~¬@¦s/a/b¬@/¦{¬@¬}¦`+
		`s/@/x/¦s/x/@/¦s/[/]@/x/¦s/[\/]@/x/¦s/[]/]@/x/¦s/[^]/]@/x/¦s/[[:alpha:]/]@/x/¦s/[[./.]@]/x/¦s/[\]@/]/x/¦s/\[/@/¦s/a\/@/x/¦s/x/a\~@/¦s/x/a\\~@/¦s/x/a~@/¦s|a~@|b|¦s|@|x|¦s,@,x,¦s1@1x1¦s @ x ¦s;@;x;¦s#@#x#¦s]@]x]¦s][\]@].]¦s\@\x\¦sé@éxé¦s/x/y/g;@¦s/x/y/@¦s/x/y/p@¦s/x/y/2@¦s/x/y/m@¦s/x/y/ @¦s/x/y/#@¦s/x/y/~@¦s/x/y/}@¦s/\c\/@/¦s/\n/@/¦s/x/\n@/¦s/x/&@/¦`+
		`y/@/@/¦y/a/b/;@¦y/a/b/@¦y/[/]/;@¦y/a\~/b@/¦y/a\/b/@/¦/@/p¦/[/]@/p¦\,@,p¦\|@|p¦\x@xp¦/x/I@¦/x/,/@/p¦/x/,~/@/p¦1,2@¦1!@¦1~2@¦$!@¦+1@¦0,/x/@¦1,+1@¦1 , 2 @¦`+
		`b @¦b a @¦b a;@¦b a}@¦b a#@¦b a #@¦ba~@¦:a@¦:a @¦:a;@¦:a#@¦:a~@¦: a~@¦ba}a\~@¦t;@¦T;@¦t#@¦r @¦r f;@¦r f}~@¦r f\~@¦R @¦R f~@¦w @¦q@¦q5@¦q;@¦Q@¦l@¦l 5@¦l5;@¦L@¦=@¦p@¦pp@¦p;@¦p @¦p}@¦p#@¦n;@¦{@¦{@}¦{;@}¦}@¦};@¦} @¦;@¦ @¦~@¦@~@¦@;@¦@ @¦# @¦#@¦# @\~p¦# x\~@¦#n~@¦p # @¦p # x\~@¦z@¦F@¦x;@¦v@¦v 4.2~@¦M@¦\@¦\~@¦`+"\f@¦\r@¦p\r;@¦é@¦s/é\\/@/x/", "~", "\n"), "¦"),
	rows: []string{
		"1i x\\\\\ne evil", "a\\¬s|a\ne evil #|b|", "a\\¬s|a\nw w\n#|b|", "b a w w\n:a", "b a#;w w\n:a", "a\\ \nw w", "a\\\\\nw w", "$!N;ba}i\\\nw w", "#x\\\nw w", "s/x/y/w w", "s/a/evil/e", "1e evil", "p;e evil", "r f\\\nw w", "y/abc/x\\\nw w/", "s/[/]/x/;w w\n#]/",
		"i\\¬w w", "c¬w w", "s/a/b\\¬w w/", "}w w", "pw w", "{pw w\n}", "a foo\\\nw w", "1~2w w",
	},
	args: [][]string{{"", "f"}, {"", "f"}, {"-n", "", "f"}, {"-E", "", "f"}, {"-s", "", "f"}, {"-z", "", "f"}, {"--posix", "", "f"}, {"--debug", "", "f"}, {"-l", "", "f"}, {"-l", "5", "", "f"}, {"", "f", "-i"}, {"", "f", "-n"}, {"-u", "", "f"}, {"-n", "", "--", "f"}, {"-i", "", "f"}, {"-iw", "", "f"}, {"-s", "-n", "", "f", "g"}, {"-l", "w w", "", "f"}, {"w w", "-e", "", "f"}},
}

// command builds the words of a call: for awk the program if args are empty, for
// sed one -e for each part of the text.
func (l language) command(text string, args []string) (words []string) {
	chunks := strings.Split(text, "¬")
	for _, arg := range args {
		switch {
		case arg != "":
			words = append(words, arg)
		case len(chunks) == 1:
			words = append(words, text)
		default:
			for _, chunk := range chunks {
				words = append(words, "-e", chunk)
			}
		}
	}
	return words
}

// script is the call as a script.
func (l language) script(words []string) string {
	script := l.program
	for _, word := range words {
		script += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return script
}

// check judges the call, and runs it if it is allowed.
func (l language) check(t testing.TB, tr *tripwire, p *CommandPolicy, ran map[string]int, words []string) {
	t.Helper()
	script := l.script(words)
	if p.Judge(script, "").Decision != Allow {
		return
	}
	for name := range tr.programs {
		ran[name]++
		if did := tr.does(t, name, words...); did != "" {
			t.Errorf("%s %s in %q", name, did, script)
		}
	}
}

// controls shows that the tripwire catches what each implementation does.
func (l language) controls(t *testing.T, tr *tripwire) {
	for name := range tr.programs {
		for _, text := range l.hostile[name] {
			caught := false
			for try := 0; !caught && try < 5; try++ { // a busy host may take longer than does waits
				caught = tr.does(t, name, l.command(text, []string{"", "f"})...) != ""
			}
			if !caught {
				t.Fatalf("%s is not caught at %q: this test would find nothing", name, text)
			}
		}
		if did := tr.does(t, name, l.command(l.hostile["none"][0], []string{"", "f"})...); did != "" {
			t.Fatalf("%s %s by %q", name, did, l.hostile["none"][0])
		}
	}
}

func init() {
	run, write := `BEGIN { system("evil") }`, `{ print > "w" }`
	connect := `BEGIN { ARGV[1] = "/inet/tcp/0/127.0.0.1/PORT" } 1`
	awkLanguage.hostile = map[string][]string{"gawk": {run, write, connect}, "mawk": {run, write}, "original-awk": {run, write}, "busybox awk": {run, write}, "none": {"{ print $1 }"}}
	sedLanguage.hostile = map[string][]string{"GNU sed": {"1e evil", "w w", "s/a/evil/e", "w f"}, "busybox sed": {"w w", "s/a/b/w w"}, "none": {"s/a/b/p"}}
}

// TestLanguagesAgree runs the readonly awk and sed programs with each
// awk and sed, and catches other programs, changed files and connections. It
// finds where an implementation reads a program differently than the policy.
func TestLanguagesAgree(t *testing.T) {
	for _, l := range []language{awkLanguage, sedLanguage} {
		t.Run(l.program, func(t *testing.T) {
			t.Parallel()
			tr, p := newTripwire(t, l.programs), bundled(t, "readonly", ShellPOSIX)
			l.controls(t, tr)
			ran := map[string]int{}
			for _, text := range l.rows {
				l.check(t, tr, p, ran, l.command(text, []string{"", "f"}))
			}
			random, more := fuzzTime(t)
			for more() {
				for range 8 { // most are denied
					l.check(t, tr, p, ran, l.command(l.text(random), l.args[random.IntN(len(l.args))]))
				}
			}
			for name := range tr.programs {
				if ran[name] < 100 {
					t.Errorf("%s ran %d programs, too few for a result", name, ran[name])
				}
			}
			t.Log("programs run:", ran)
		})
	}
}

func (l language) text(random *rand.Rand) string {
	text := hide(random, pick(random, l.payloads), l.places)
	if random.IntN(3) == 0 {
		text = hide(random, pick(random, l.payloads), l.places) + pick(random, []string{"\n", ";", " "}) + text
	}
	return text
}

func FuzzAwk(f *testing.F) { awkLanguage.fuzz(f) }
func FuzzSed(f *testing.F) { sedLanguage.fuzz(f) }

// fuzz tries texts that begin like the rows and places.
func (l language) fuzz(f *testing.F) {
	for _, text := range l.rows {
		f.Add(text, 0)
	}
	for i, place := range l.places {
		f.Add(strings.ReplaceAll(place, "@", l.payloads[i%len(l.payloads)]), i)
	}
	tr, p := newTripwire(f, l.programs), bundled(f, "readonly", ShellPOSIX)
	ran := map[string]int{}
	f.Fuzz(func(t *testing.T, text string, args int) {
		if len(text) < 300 && !strings.Contains(text, "/proc") {
			l.check(t, tr, p, ran, l.command(text, l.args[uint(args)%uint(len(l.args))]))
		}
	})
}
