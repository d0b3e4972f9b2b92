package policy

import (
	"strings"
	"testing"
)

// A program that starts another one in another place changes the meaning of paths:
// path rules about the workspace do not apply.
func TestProgramsThatStartElsewhere(t *testing.T) {
	p := compile(t, CommandRules{Writes: []string{"**", "/work/**"}, Rules: []CommandRule{
		rule("tools", Allow, "tee|echo|git|./gradlew|sudo|unshare|nsenter|chroot|ssh|chpst|tar"),
		{Name: "runs", Commands: []string{"su", "doas"}, Decision: Allow, Allow: []string{Runs}},
		{Name: "root", Commands: []string{"runuser"}, Decision: Allow, Allow: []string{Runs}},
	}})
	for _, script := range []string{
		"tee passwd", "sudo tee passwd", "unshare tee passwd", "nsenter tee passwd", "sudo tee /work/a", "unshare -n ./gradlew",
		"env -C /etc echo x > a", "env -C /etc echo; tee a", "git -C sub log && tee a", "sudo -D /etc echo $(tee /work/a)", // the shell stays where it is
		"env -C /etc tee /work/a", "sudo -D /etc tee /work/a", "sudo -D /etc sh -c 'tee /work/a'",
	} {
		if v := p.Judge(script, ""); v.Decision != Allow {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
	for _, script := range []string{
		"env -C /etc tee passwd", "env --chdir=/etc tee passwd", "env --chd /etc tee passwd", "env -C /etc ./gradlew",
		"sudo -D /etc tee passwd", "sudo -D/etc tee passwd", "sudo --chdir /etc tee passwd", "sudo --chd=/etc tee passwd", "sudo -nD /etc tee passwd", "sudo -D sub ./gradlew",
		"unshare --wd /etc tee passwd", "unshare --wd=/etc tee passwd", "unshare -w /etc tee passwd",
		"nsenter -w/etc tee passwd", "nsenter -w tee passwd", "nsenter --wd=/etc tee passwd", "nsenter -t 1 -w/etc sh -c 'tee passwd'",
		"git -C /etc diff --output=passwd", "sudo -D /etc sudo tee passwd", "sudo -D /etc env timeout 5 tee passwd",
		// In another root absolute paths have another meaning, too.
		"chroot /x tee /work/a", "chroot /x tee a", "chroot /x sh -c 'cd / && tee /work/a'", "chroot /x sh -c 'echo $(tee /work/a)'", "chroot /x sh -c 'echo > /work/a'",
		"chroot /x sh -c 'f() { tee /work/a; }; f'", "chroot /x env tee /work/a", "nsenter -t 1 -m tee /work/a", "nsenter -r/x tee /work/a", "nsenter -a -t 1 tee /work/a",
		"unshare -R /x tee /work/a", "unshare --root=/x tee /work/a", "sudo -R /x tee /work/a", "chpst -/ /x tee /work/a", "ssh host 'tee /work/a'", "chroot /x ./gradlew",
		// In any order, and into any user's home.
		"tar -C /etc --to-command='tee passwd' -xf a", "tar --to-command='tee passwd' -C /etc -xf a", "su -c 'tee passwd' -l", "su -l -c 'tee passwd'", "su - root -c 'tee passwd'", "su -c 'tee passwd'",
		"runuser -l root -c 'tee passwd'", "runuser -c 'tee passwd' -l root",
		"chpst -e /x echo", // variables from the files of a directory
	} {
		if v := p.Judge(script, ""); v.Decision != Deny {
			t.Errorf("%q is %s by %q", script, v.Decision, v.Rule)
		}
	}
	login := compile(t, CommandRules{Writes: []string{"**"}, Rules: []CommandRule{rule("tee", Allow, "tee"), {Name: "sudo", Commands: []string{"sudo"}, Decision: Allow, Allow: []string{Runs}}}})
	for script, want := range map[string]Decision{"sudo tee a": Allow, "sudo -s tee a": Allow, "sudo -i tee a": Deny, "sudo --login tee a": Deny} {
		if v := login.Judge(script, ""); v.Decision != want {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
	if v := p.Judge("chroot /x echo $(tee /work/a)", ""); v.Decision != Allow || !strings.Contains(v.Reason, "tools") {
		t.Errorf("what the shell runs before it starts chroot stays: %s", v.Reason)
	}
}
