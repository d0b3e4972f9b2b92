package sandboxtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
)

var sessionTests = map[string]func(*testing.T, *fixture){
	"a session's container is listed by name and without one": func(t *testing.T, f *fixture) {
		f.create(t) // of no session
		first, other := f.session(t), f.session(t)
		for _, s := range []*session{first, other} {
			list, err := f.engine.Sessions(f.ctx, s.spec.Session)
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, error %v", list, err)
			}
			s.wantKept(t, list[0])
			s.wantKept(t, s.kept(t, f, ""))
		}
		for name, others := range map[string]bool{"": true, first.spec.Session + "x": false, strings.ToUpper(first.spec.Session): false} {
			list, err := f.engine.Sessions(f.ctx, name)
			if err != nil || !others && len(list) > 0 || slices.ContainsFunc(list, func(k sandbox.Kept) bool { return k.Session == "" }) {
				t.Errorf("named %q: %+v, error %v", name, list, err)
			}
		}
		f.remove(t, first)
		if list, err := f.engine.Sessions(f.ctx, first.spec.Session); len(list) > 0 || err != nil {
			t.Errorf("a removed one is listed: %+v, error %v", list, err)
		}
		other.kept(t, f, other.spec.Session)
	},
	"an adopted container works fully": func(t *testing.T, f *fixture) {
		s := f.session(t)
		f.run(t, s, scriptSave, 0)
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		box := s.adopt(t, f)
		if box.Info() != s.Info() {
			t.Errorf("its info is %+v, want %+v", box.Info(), s.Info())
		}
		wantText(t, "file", f.run(t, box, scriptLoad, 0).stdout, "kept\n")
		wantProcesses(t, f, box)
		if c, err := box.Counters(f.ctx); err != nil || c.Source == "" {
			t.Errorf("counters %+v, error %v", c, err)
		}
		p := f.exec(t, box, scriptStubborn)
		p.stdout.await(f.ctx, "ready")
		f.remove(t, box)
		wantKilled(t, f, p)
		if list, err := f.engine.Sessions(f.ctx, s.spec.Session); len(list) > 0 || err != nil {
			t.Errorf("after Remove: %+v, error %v", list, err)
		}
	},
	"a process is identical through every handle": func(t *testing.T, f *fixture) {
		s := f.session(t)
		p := f.exec(t, s, scriptBackground)
		p.stdout.await(f.ctx, "ready")
		commands := []string{"sh -c " + scriptBackground, "sleep 1001"}
		before := wantProcesses(t, f, s, commands...)
		box := s.adopt(t, f)
		for i, p := range wantProcesses(t, f, box, commands...) {
			if b := before[i]; p.PID == 0 || p.SID == 0 || p.PID != b.PID || p.SID != b.SID || p.StartTicks != b.StartTicks || p.HostPID != b.HostPID {
				t.Errorf("%+v, want %+v", p, b)
			}
		}
	},
	"a removed container is not adopted": func(t *testing.T, f *fixture) {
		s := f.session(t)
		kept := s.kept(t, f, s.spec.Session)
		f.remove(t, s)
		_, err := f.engine.Adopt(f.ctx, kept)
		wantError(t, err, sandbox.CauseEngineLost)
	},
	"close leaves it running": func(t *testing.T, f *fixture) {
		s := f.session(t)
		f.exec(t, s, scriptBackground).stdout.await(f.ctx, "ready")
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		wantProcesses(t, f, s.adopt(t, f), "sh -c "+scriptBackground, "sleep 1001")
	},
	"a wait continues after close": func(t *testing.T, f *fixture) {
		s := f.session(t)
		p := f.exec(t, s, scriptClosed)
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if status, err := p.Wait(f.ctx); status != 9 || err != nil {
			t.Errorf("status %d, error %v", status, err)
		}
	},
	"a signal goes only to the listed processes": func(t *testing.T, f *fixture) {
		s := f.session(t)
		box := s.adopt(t, f)
		victim, spared := f.exec(t, s, scriptStubborn), f.exec(t, s, scriptBackground)
		victim.stdout.await(f.ctx, "ready")
		spared.stdout.await(f.ctx, "ready")
		var doomed []sandbox.Process
		for _, p := range f.processes(t, box) {
			if !strings.Contains(p.Command, "1001") { // the shell, and its sleep
				doomed = append(doomed, p)
			}
		}
		f.signal(t, box, doomed, "SIGKILL")
		if status, err := victim.Wait(f.ctx); status != 137 || err != nil {
			t.Errorf("status %d, error %v, want 137", status, err)
		}
		for range 2 { // now they are gone, which is no error
			f.signal(t, box, doomed, "SIGKILL")
			f.signal(t, box, nil, "SIGTERM")
		}
		wantProcesses(t, f, box, "sh -c "+scriptBackground, "sleep 1001")
		select {
		case <-spared.Exited():
			t.Error("another process ended, too")
		default:
		}
	},
	"a signal does not go to a new process with the same PID": func(t *testing.T, f *fixture) {
		s := f.session(t)
		p := f.exec(t, s, scriptBackground)
		p.stdout.await(f.ctx, "ready")
		commands := []string{"sh -c " + scriptBackground, "sleep 1001"}
		list := wantProcesses(t, f, s, commands...)
		for i := range list {
			list[i].StartTicks--
		}
		f.signal(t, s, list, "SIGTERM")
		f.signal(t, s, list, "SIGKILL")
		wantProcesses(t, f, s, commands...)
	},
	"every handle learns of the removal": func(t *testing.T, f *fixture) {
		s := f.session(t)
		box := s.adopt(t, f)
		if isClosed(s.Lost()) || isClosed(box.Lost()) {
			t.Error("reported as lost while it runs")
		}
		f.remove(t, box)
		f.wantLost(t, box)
		f.wantLost(t, s)
	},
	"a handle learns of the removal after another was closed": func(t *testing.T, f *fixture) {
		s := f.session(t)
		if err := s.adopt(t, f).Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if isClosed(s.Lost()) {
			t.Error("closing one handle lost the other")
		}
		f.run(t, s, "exit 3", 3)
		f.remove(t, s.adopt(t, f))
		f.wantLost(t, s)
	},
	"the removal of a container without a session is reported": func(t *testing.T, f *fixture) {
		box := f.create(t)
		f.remove(t, box)
		f.wantLost(t, box)
	},
}

// session is a session's container, and the spec it was created with.
type session struct {
	sandbox.Container
	spec sandbox.Spec
}

// session makes a container of a new session, which is removed after the
// test.
func (f *fixture) session(t *testing.T) *session {
	t.Helper()
	own := *f
	own.spec = spec(f.spec.Image)
	own.spec.Command += "-" + strings.ToLower(time.Now().Format("05.000000000"))
	own.spec.Session = own.spec.Command
	return &session{own.create(t), own.spec}
}

// kept is the session in the engine's list for that name.
func (s *session) kept(t *testing.T, f *fixture, name string) sandbox.Kept {
	t.Helper()
	list, err := f.engine.Sessions(f.ctx, name)
	i := slices.IndexFunc(list, func(k sandbox.Kept) bool { return k.Session == s.spec.Session })
	if i < 0 {
		t.Fatalf("session %q is not listed: %+v, error %v", s.spec.Session, list, err)
	}
	return list[i]
}

func (s *session) wantKept(t *testing.T, k sandbox.Kept) {
	t.Helper()
	ago := time.Since(k.Created)
	if k.ID != s.Info().ID || k.Session != s.spec.Session || k.Image != s.spec.Image.Reference || k.Print != s.spec.Print() || k.User != s.spec.User ||
		!k.Deadline.Equal(s.spec.Deadline.Truncate(time.Second)) && !k.Deadline.Equal(s.spec.Deadline) || ago < -time.Minute || ago > patience {
		t.Errorf("%+v of %+v", k, s.spec)
	}
}

func (s *session) adopt(t *testing.T, f *fixture) sandbox.Container {
	t.Helper()
	box, err := f.engine.Adopt(f.ctx, s.kept(t, f, s.spec.Session))
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	t.Cleanup(func() { box.Close() })
	return box
}

func (f *fixture) processes(t *testing.T, box sandbox.Container) []sandbox.Process {
	t.Helper()
	list, err := box.Processes(f.ctx)
	for tries := 0; err != nil && tries < 20; tries++ { // it may lack some that come and go, as in a loop of sleeps
		list, err = box.Processes(f.ctx)
	}
	if err != nil {
		t.Fatalf("Processes: %v", err)
	}
	return list
}

func (f *fixture) wantLost(t *testing.T, box sandbox.Container) {
	t.Helper()
	select {
	case <-box.Lost():
	case <-f.ctx.Done():
		t.Error("the removal of the container is not reported")
	}
}
