package policy

import "testing"

// Relative names and globs refer to the directory in which a script starts.
func TestWhereAScriptStarts(t *testing.T) {
	p := compile(t, CommandRules{Writes: []string{"out/**", "*.log", "/data/**"}, Rules: []CommandRule{rule("r", Allow, "echo|./gradlew|rm")}})
	all := compile(t, CommandRules{Writes: []string{"**"}, Rules: []CommandRule{rule("r", Allow, "echo")}})
	for _, test := range []struct {
		policy      *CommandPolicy
		dir, script string
		want        Decision
	}{
		{p, "", "echo > out/x", Allow}, {p, "", "echo > /work/out/x", Deny}, {p, "", "cd /work && echo > out/x", Deny}, {p, "", "cd /data && echo > out/x", Allow},
		{p, "/work", "echo > out/x", Allow}, {p, "/work", "echo > /work/out/x", Allow}, {p, "/work", "cd /work && echo > out/x", Allow},
		{p, "/work", "echo > a.log", Allow}, {p, "/work", "echo > sub/a.log", Deny}, {p, "/work", "cd sub; echo > out/x", Deny}, {p, "/work", "cd sub && cd .. && echo > out/x", Allow},
		{p, "/work/", "echo > /work/out/x", Allow}, {p, "/work/sub/..", "echo > /work/out/x", Allow}, {p, "/", "echo > /out/x", Allow}, {p, "/", "echo > x.log", Allow},
		{p, "/work/sub", "echo > /work/out/x", Deny}, {p, "/work/sub", "cd .. && echo > out/x", Deny}, {p, "work", "echo > out/x", Allow}, {p, "work", "cd /work; echo > out/x", Deny},
		{p, "/work", "./gradlew", Allow}, {p, "/work", "cd sub && ./gradlew", Deny}, {p, "/work", "cd /work && ./gradlew", Allow}, {p, "/work", "cd ../work && ./gradlew", Allow}, {p, "", "cd /work && ./gradlew", Deny},
		// A directory's name is no glob, and no way to reach git's own files.
		{p, "/w*", "echo > /work/out/x", Deny}, {p, "/[w]ork", "echo > /work/out/x", Deny}, {p, "/[w]ork", "echo > out/x", Allow},
		{all, "/work", "echo > x", Allow}, {all, "/work", "echo > .git/x", Deny}, {all, "/work/.git/hooks", "echo > pre-commit", Deny}, {all, "/work", "cd .git/hooks && echo > pre-commit", Deny},
		{all, "", "cd .git/hooks && echo > pre-commit", Deny}, {all, "/work/.GIT", "rm config", Deny}, {all, "/work", "echo > /workshop", Deny}, {all, "/work", "echo > ../x", Deny},
	} {
		if v := test.policy.Judge(test.script, test.dir); v.Decision != test.want {
			t.Errorf("%q in %q is %s, want %s: %s", test.script, test.dir, v.Decision, test.want, v.Reason)
		}
	}
}
