package sandboxtest

import (
	"slices"
	"strings"
	"testing"

	"belljar/sandbox"
)

// others are users other than the suite's own.
var others = []sandbox.User{{UID: 1000, GID: 50}, {UID: 2000, GID: 2000}}

// refusesOthers reports whether all commands of a container run as its first user, as it says by a method. Then it refuses others.
func refusesOthers(t *testing.T, f *fixture, s *session) bool {
	one, says := s.Container.(interface{ OneUser() bool })
	if !says || !one.OneUser() {
		return false
	}
	for _, box := range []sandbox.Container{s, s.adopt(t, f)} {
		for _, u := range append(others, sandbox.User{UID: user.UID, GID: 1000}) {
			_, err := box.Exec(f.ctx, sandbox.Exec{Script: "exit 0", Dir: "/work", User: u})
			wantError(t, err, sandbox.CauseInvalid)
		}
	}
	return true
}

func asUser(u sandbox.User) func(*sandbox.Exec) {
	return func(x *sandbox.Exec) { x.User = u }
}

var userTests = map[string]func(*testing.T, *fixture){
	"files come from the image": func(t *testing.T, f *fixture) {
		files, err := f.engine.Files(f.ctx, f.spec.Image, []string{"/etc/passwd", "/etc/none", "/none/passwd"}, 1<<20)
		if err != nil || len(files) != 3 || !strings.Contains(string(files[0]), "nobody:x:65534:65534:") || files[1] != nil || files[2] != nil {
			t.Errorf("%q, error %v", files, err)
		}
	},
	"each process runs as its user, or is refused": func(t *testing.T, f *fixture) {
		s := f.session(t)
		if refusesOthers(t, f, s) {
			return
		}
		for _, u := range others {
			wantText(t, "user", f.run(t, s, scriptWhere, 0, asUser(u)).stdout, "/work\n"+strings.Replace(u.Numbers(), ":", "\n", 1)+"\n")
		}
	},
	"processes of all users are listed and killed": func(t *testing.T, f *fixture) {
		s := f.session(t)
		if refusesOthers(t, f, s) {
			return
		}
		var all []*process
		for _, u := range append([]sandbox.User{user}, others...) {
			p := f.exec(t, s, scriptStubborn, asUser(u))
			p.stdout.await(f.ctx, "ready")
			all = append(all, p)
		}
		box := s.adopt(t, f)
		list := f.processes(t, box)
		for _, u := range append([]sandbox.User{user}, others...) {
			if !slices.ContainsFunc(list, func(p sandbox.Process) bool { return p.UID == u.UID }) {
				t.Errorf("no process of %s: %+v", u, list)
			}
		}
		f.signal(t, box, list, "SIGKILL")
		for _, p := range all {
			if status, err := p.Wait(f.ctx); status != 137 || err != nil {
				t.Errorf("status %d, error %v, want 137", status, err)
			}
		}
	},
	"root is contained, or refused": func(t *testing.T, f *fixture) {
		f.spec.User, f.spec.Root, f.spec.Limits.Disk = sandbox.User{Name: sandbox.RootUser}, true, 8<<20
		box, err := f.engine.Create(f.ctx, f.spec)
		if err != nil {
			wantError(t, err, sandbox.CauseInvalid)
			return
		}
		defer f.remove(t, box)
		if how := box.Info().Root; how != "userns" && how != "gvisor" {
			t.Errorf("contained by %q", how)
		}
		wantText(t, "root", f.run(t, box, scriptWhere, 0, asUser(f.spec.User)).stdout, "/work\n0\n0\n")
		wantText(t, "another user", f.run(t, box, scriptWhere, 0, asUser(others[0])).stdout, "/work\n1000\n50\n")
	},
	"nothing runs as root or as the keeper": func(t *testing.T, f *fixture) {
		s := f.session(t)
		for _, box := range []sandbox.Container{s, s.adopt(t, f)} {
			for _, uid := range []int{0, -1, 65533} {
				_, err := box.Exec(f.ctx, sandbox.Exec{Script: "exit 0", Dir: "/work", User: sandbox.User{UID: uid, GID: 1000}})
				wantError(t, err, sandbox.CauseInvalid)
			}
		}
	},
}
