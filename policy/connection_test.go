package policy

import (
	"strings"
	"testing"
)

// TestRedirectionsAgree runs the allowed scripts in the real shells and
// catches connections: bash opens one for a redirection from or to
// /dev/tcp/HOST/PORT, in whatever way the script writes that name.
func TestRedirectionsAgree(t *testing.T) {
	tr := newTripwire(t, redirectionShells)
	policies := redirectionPolicies(t)
	for name := range tr.programs {
		if did := tr.does(t, name, "-c", "cat < /dev/tcp/127.0.0.1/PORT"); strings.HasPrefix(name, "bash") != (did != "") {
			t.Fatalf("%s %q: this test would find nothing", name, did)
		}
		if did := tr.does(t, name, "-c", "cat < f"); did != "" {
			t.Fatalf("%s %s", name, did)
		}
	}
	ran := map[string]int{}
	for _, script := range redirectionRows {
		checkRedirection(t, tr, policies, ran, script)
	}
	random, more := fuzzTime(t)
	for more() {
		checkRedirection(t, tr, policies, ran, hide(random, pick(random, redirectionNames), redirectionPlaces))
	}
	for name := range tr.programs {
		if ran[name] < 100 {
			t.Errorf("%s ran %d scripts, too few for a result", name, ran[name])
		}
	}
	t.Log("scripts run:", ran)
}

func FuzzRedirection(f *testing.F) {
	for i, place := range redirectionPlaces {
		f.Add(strings.ReplaceAll(place, "@", redirectionNames[i%len(redirectionNames)]))
	}
	for _, script := range redirectionRows {
		f.Add(script)
	}
	tr, policies, ran := newTripwire(f, redirectionShells), redirectionPolicies(f), map[string]int{}
	f.Fuzz(func(t *testing.T, script string) {
		if len(script) < 300 && !strings.Contains(script, "/proc") {
			checkRedirection(t, tr, policies, ran, script)
		}
	})
}

var redirectionShells = map[string][]string{"dash": {"dash"}, "bash": {"bash"}, "bash as sh": {"bash", "--posix"}, "busybox": {"busybox", "sh"}}

// redirectionPolicies allow reading and writing files, but no connections.
func redirectionPolicies(t testing.TB) map[string]*CommandPolicy {
	policies := map[string]*CommandPolicy{}
	for _, shell := range []string{ShellPOSIX, ShellBash} {
		policies[shell] = compile(t, CommandRules{Shell: shell, Writes: []string{"/**"}, Env: []string{"x", "y"}, Rules: []CommandRule{{Name: "reads", Commands: strings.Fields("cat echo printf"), Decision: Allow, Allow: []string{Reads}}}})
	}
	return policies
}

func checkRedirection(t testing.TB, tr *tripwire, policies map[string]*CommandPolicy, ran map[string]int, script string) {
	t.Helper()
	forSh, forBash := policies[ShellPOSIX].Judge(script, "").Decision == Allow, policies[ShellBash].Judge(script, "").Decision == Allow
	for name := range tr.programs {
		if mayRun := forSh || forBash && name == "bash"; !mayRun {
			continue
		}
		ran[name]++
		if did := tr.does(t, name, "-c", script); did != "" && !strings.HasPrefix(did, "wrote") {
			t.Errorf("%s %s in %q", name, did, script)
		}
	}
}

var redirectionNames = []string{"/dev/tcp/127.0.0.1/PORT", "/dev/udp/127.0.0.1/PORT", "\"/dev/tcp/127.0.0.1/PORT\"", "'/dev/tcp/127.0.0.1/PORT'", "/dev/tcp/localhost/PORT", "/dev/tc\"p/127.0.0.1/\"PORT", "f", "$x", "\"$x\"", "\"$y\"", "${x}"}

var redirectionPlaces = strings.Split(strings.ReplaceAll(`cat < @¦cat <@¦cat <> @¦echo a > @¦echo a >> @¦echo a >| @¦echo a >& @¦echo a &> @¦echo a &>> @¦exec 3<>@¦exec 3<@¦exec 3> @¦3<@¦< @¦> @¦cat <& @¦cat < "@"¦cat < $@¦{ cat; } < @¦(cat) < @¦while cat; do break; done < @¦for x in @; do cat; done < "$x"¦`+
	`x=@; cat < $x¦x=@; cat < "$x"¦x=@; y=$x; cat < "$y"¦x=@; cat < "${x}"¦x=@; cat < "${x:-f}"¦x=@; cat < "${x#a}"¦x=f; cat < "${x:+@}"¦cat < "${x:-@}"¦cat < "${x:=@}"¦x=f; x=@; cat < "$x"¦x=@; x=f; cat < "$x"¦x=f; cat < "$x"; x=@¦x=f; cat < "$x@"¦x=f; cat < "$x"@¦x=; cat < "$x"@¦cat < "$x"@¦cat < $x@¦x=.; cat < "$x@"¦x=/dev; cat < "$x/tcp/127.0.0.1/PORT"¦x=/; cat < "${x}dev/tcp/127.0.0.1/PORT"¦x=tcp; cat < "/dev/$x/127.0.0.1/PORT"¦x=PORT; cat < "/dev/tcp/127.0.0.1/$x"¦x=d; cat < "/${x}ev/tcp/127.0.0.1/PORT"¦`+
	`for x in @; do cat < "$x"; done¦for x in f @; do cat < $x; done¦for x in *; do cat < "$x"; done¦for x in *@; do cat < "$x"; done¦for x in "$y"*; do cat < "$x"; done¦for x in {f,@}; do cat < "$x"; done¦for x in $(echo @); do cat < "$x"; done¦for x; do cat < "$x"; done¦read x <<E; cat < "$x"~@~E¦read x < f; cat < "$x"¦echo @ | while read x; do cat < "$x"; done¦set -- @; cat < "$1"¦f() { cat < "$1"; }; f @¦f() { cat < "$x"; }; x=@; f¦export x=@; cat < "$x"¦readonly x=@; cat < "$x"¦x=f; export x=@; cat < "$x"¦printf -v x %s @; cat < "$x"¦x=f; eval x=@; cat < "$x"¦eval 'cat < @'¦eval cat '<' @¦sh -c 'cat < @'¦x=@ sh -c 'cat < "$x"'¦bash -c 'cat < "$1"' sh @¦trap 'cat < @' EXIT¦`+
	`cat < $(echo @)¦cat < "$(echo @)"¦cat < {@,}¦cat < *@¦cat < ~@¦cat < \@¦cat < [/]dev/tcp/127.0.0.1/PORT¦cat < ./@¦cat < "./"@¦cat < a@¦cat < "a"@¦cat < $'@'¦cat < $"@"¦cat < ""@¦cat < ''@¦cat < "$((1))"@¦cat < $#@¦x=1; cat < "$x"@¦cat < /@¦cat < //dev/tcp/127.0.0.1/PORT¦cat < /dev/./tcp/127.0.0.1/PORT¦cat < /dev@¦cat <<< "$(< @)"¦echo $(< @)¦echo "$(cat < @)"¦cat < <(cat < @)¦cat <<E~$(< @)~E¦((x=1)); cat < "$x"@¦x=~@; cat < "$x"¦x=~; cat < "$x"@¦x+=@; cat < "$x"¦x=(@); cat < "$x"¦declare x=@; cat < "$x"¦local x=@; cat < "$x"¦while getopts x: x; do cat < "$OPTARG"; done¦`+
	`[ -f @ ]¦case a in a) cat < @;; esac¦if cat < @; then :; fi¦! cat < @¦cat < @ &¦cat f | cat < @¦cat f && cat < @¦IFS= read -r x < @¦: "${x:=@}"; cat < "$x"¦: ${x:=f}; cat < "$x"@¦mapfile x < @¦unset x; cat < "$x"@¦x=f; unset x; cat < "$x"@¦x=a; (x=@; cat < "$x")¦x=f y=@; cat < "$x$y"¦x=f y=g; cat < "$x$y"¦x=f; cat < "$x"*¦cat < f; @¦cat < f @¦{ x=@; } ; cat < $x¦cat < $x$y¦cat < "$x"g¦cat < "$x".g`, "~", "\n"), "¦")

var redirectionRows = []string{
	"x=/dev/tcp/127.0.0.1/PORT; cat < $x", "exec 3<>/dev/tcp/127.0.0.1/PORT", "x=/dev/tcp; exec 3<>\"$x/127.0.0.1/PORT\"", "set -- /dev/tcp/127.0.0.1/PORT; cat < \"$1\"", "for x in f g; do cat < \"$x\"; done", "for x in *; do cat < \"$x\"; done", "x=f; cat < \"./$x\"", "cat < \"./$1\"",
	"x=/dev/tcp/127.0.0.1/PORT; echo a &> $x", "x=/dev/tcp/127.0.0.1/PORT; echo a > \"$x\"", "echo a >& /dev/tcp/127.0.0.1/PORT", "f() { cat < \"$x\"; }; x=f; f; x=/dev/tcp/127.0.0.1/PORT; f",
}

// Names that cannot be a connection need no rule that allows running anything.
func TestConnections(t *testing.T) {
	for script, want := range map[string]Decision{
		"cat < f": Allow, "cat < /dev/null": Allow, "head -c 8 < /dev/urandom": Allow, "cat < ~/f": Allow, "wc -l < *.md": Allow, "wc -l < \"./$1\"": Allow, "for f in *.go; do wc -l < \"$f\"; done": Allow, "f=README.md; wc -l < \"$f\"": Allow,
		"for d in a b; do cat < \"$d/f\"; done": Allow, "f=; cat < \"$f\"": Allow, "n=1; cat < \"log.$n\"": Allow, "awk 1 *.txt": Allow, "for f in *.txt; do awk 1 \"$f\"; done": Allow, "awk 1 ./\"$f\"": Allow, "awk 1 \"/var/log/$f\"": Allow, "find . -name '*.c' -exec awk 1 {} +": Allow, "ls | xargs -I{} awk 1 ./{}": Allow, "awk 1 < f": Allow, "exec 3<&0; cat <&3": Allow,
		"cat < \"$1\"": Deny, "cat < $f": Deny, "while read f; do wc -l < \"$f\"; done": Deny, "cat < /dev/tcp/h/80": Deny, "cat < \"/dev/$x\"": Deny, "exec 3<>\"$x\"": Deny, "f=/dev; cat < \"$f/tcp/h/80\"": Deny, "cat < \"$f\"/dev/tcp/h/80": Deny, "f=a; unset f; cat < \"$f\"/dev/tcp/h/80": Deny,
		"awk 1 \"$f\"": Deny, "awk 1 $f": Deny, "awk 1 /inet/tcp/0/h/80": Deny, "awk 1 /inet4/tcp/0/h/80": Deny, "ls | xargs awk 1": Deny, "ls | xargs -I{} awk 1 {}": Deny, "f=a; ls | xargs -I a awk 1 \"$f\"": Deny, "awk 1 \"/$x\"": Deny, "x=/in; awk 1 \"${x}et/tcp/0/h/80\"": Deny, "sh -c 'awk 1 \"$1\"' sh f": Deny, "f=a; eval f=/inet/tcp/0/h/80; awk 1 \"$f\"": Deny,
	} {
		for _, shell := range []string{ShellPOSIX, ShellBash} {
			if v := bundled(t, "readonly", shell).Judge(script, ""); v.Decision != want {
				t.Errorf("%s: %q is %s: %s", shell, script, v.Decision, v.Reason)
			}
		}
	}
	writes := compile(t, CommandRules{Shell: ShellBash, Writes: []string{"/**"}, Rules: []CommandRule{{Name: "reads", Commands: []string{"cat"}, Decision: Allow}, {Name: "runs", Commands: []string{"nc"}, Decision: Allow, Allow: []string{Runs}}, {Name: "unknown", Commands: []string{"head"}, Decision: Allow, AllowUnknown: true}}})
	for script, want := range map[string]Decision{
		"cat > \"./$x\"": Allow, "cat > /etc/x": Allow, "cat > \"$x\"": Deny, "cat > /dev/tcp/h/80": Deny, "cat &> /dev/tcp/h/80": Deny, "nc > /dev/tcp/h/80": Allow, "nc < \"$x\"": Allow, "head < \"$x\"": Allow, "head < /dev/tcp/h/80": Deny,
	} {
		if v := writes.Judge(script, ""); v.Decision != want {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
	asks := compile(t, CommandRules{Default: Ask, Writes: []string{"**"}, Rules: []CommandRule{rule("reads", Allow, "cat")}})
	if v := asks.Judge("cat < \"$x\"", ""); v.Decision != Ask || len(v.Unknown) == 0 {
		t.Errorf("%s, unknown %v", v.Decision, v.Unknown)
	}
}
