package record

import (
	"maps"
	"slices"
	"testing"

	"belljar/sandbox"

	"github.com/google/go-cmp/cmp"
)

// proc is a process of its own parent and session.
func proc(pid, ppid, sid int) sandbox.Process {
	return sandbox.Process{PID: pid, PPID: ppid, SID: sid, StartTicks: int64(1000 + pid)}
}

// attributed is the same once its command is known.
func attributed(p sandbox.Process, command string) sandbox.Process {
	p.CommandID = command
	return p
}

func set(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

func TestAttribute(t *testing.T) {
	for name, test := range map[string]struct {
		started Attribution
		active  map[string]bool
		list    []sandbox.Process
		want    []string
	}{
		"nothing runs": {},
		"the first process, and its children": {
			Attribution{Leaders: map[int]string{10: "A", 20: "B"}}, set("A", "B"),
			[]sandbox.Process{proc(10, 0, 10), proc(11, 10, 10), proc(20, 0, 20), proc(21, 20, 20), proc(22, 21, 20)},
			[]string{"A", "A", "B", "B", "B"},
		},
		"a child that lost its parent is in the session still": {
			Attribution{Leaders: map[int]string{10: "A", 20: "B"}}, set("A", "B"),
			[]sandbox.Process{proc(11, 1, 10), proc(20, 0, 20)},
			[]string{"A", "B"},
		},
		"a session of its own, with a living parent": {
			Attribution{Leaders: map[int]string{10: "A", 20: "B"}}, set("A", "B"),
			[]sandbox.Process{proc(10, 0, 10), proc(12, 10, 12), proc(13, 12, 13), proc(20, 0, 20)},
			[]string{"A", "A", "A", "B"},
		},
		"the parent comes after the child in the list": {
			Attribution{Leaders: map[int]string{30: "A", 20: "B"}}, set("A", "B"),
			[]sandbox.Process{proc(10, 12, 10), proc(12, 30, 12), proc(20, 0, 20), proc(30, 0, 30)},
			[]string{"A", "A", "B", "A"},
		},
		"a daemon of the only command": {
			Attribution{Leaders: map[int]string{10: "A"}}, set("A"),
			[]sandbox.Process{proc(12, 1, 12)},
			[]string{"A"},
		},
		"a daemon of one of two that run": {
			Attribution{Leaders: map[int]string{10: "A", 20: "B"}}, set("A", "B"),
			[]sandbox.Process{proc(10, 0, 10), proc(15, 1, 15), proc(20, 0, 20)},
			[]string{"A", "", "B"},
		},
		"a daemon of one that runs, or of what another left": {
			Attribution{Leaders: map[int]string{20: "B"}, Known: []knownProcess{{11, 1011, "A"}}}, set("B"),
			[]sandbox.Process{proc(11, 1, 10), proc(15, 1, 15), proc(20, 0, 20)},
			[]string{"A", "", "B"},
		},
		"a daemon of what another left, which ended since": {
			Attribution{Leaders: map[int]string{20: "B"}, Known: []knownProcess{{11, 1011, "A"}}}, set("B"),
			[]sandbox.Process{proc(15, 1, 15), proc(20, 0, 20)},
			[]string{"", "B"},
		},
		"a daemon of one that another process has told to run": {
			Attribution{Leaders: map[int]string{10: "A", 20: "B"}}, set("B"),
			[]sandbox.Process{proc(15, 1, 15), proc(20, 0, 20)},
			[]string{"", "B"},
		},
		"a daemon that was known before": {
			Attribution{Leaders: map[int]string{20: "B"}, Known: []knownProcess{{15, 1015, "A"}}}, set("B"),
			[]sandbox.Process{proc(15, 1, 15), proc(16, 15, 16), proc(20, 0, 20)},
			[]string{"A", "A", "B"},
		},
		"one that was unknown before stays so": {
			Attribution{Leaders: map[int]string{20: "B"}, Known: []knownProcess{{15, 1015, ""}}}, set("B"),
			[]sandbox.Process{proc(15, 1, 15), proc(20, 0, 20)},
			[]string{"", "B"},
		},
		"and so do its children": {
			Attribution{Leaders: map[int]string{20: "B"}, Known: []knownProcess{{15, 1015, ""}}}, set("B"),
			[]sandbox.Process{proc(15, 1, 15), proc(16, 15, 15), proc(17, 1, 17), proc(20, 0, 20)},
			[]string{"", "", "", "B"},
		},
		"a PID that is another's now": {
			Attribution{Leaders: map[int]string{20: "B"}, Known: []knownProcess{{21, 7, "A"}}}, set("B"),
			[]sandbox.Process{proc(20, 0, 20), proc(21, 20, 20)},
			[]string{"B", "B"},
		},
		"a PID that is a daemon's now, of which command is not known": {
			Attribution{Leaders: map[int]string{20: "B"}, Known: []knownProcess{{15, 7, "A"}}}, set("B"),
			[]sandbox.Process{proc(15, 1, 15), proc(20, 0, 20)},
			[]string{"", "B"},
		},
		"only the host's PIDs, one command": {
			Attribution{}, set("A"),
			[]sandbox.Process{{HostPID: 500}, {HostPID: 501}},
			[]string{"A", "A"},
		},
		"only the host's PIDs, two commands": {
			Attribution{Leaders: map[int]string{0: "A", 20: "B"}}, set("A", "B"),
			[]sandbox.Process{{HostPID: 500}, {HostPID: 501}},
			[]string{"", ""},
		},
		"nobody's: no command is known": {
			Attribution{}, nil,
			[]sandbox.Process{proc(15, 1, 15)},
			[]string{""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			test.started.Attribute(test.list, test.active)
			for _, p := range test.list {
				got = append(got, p.CommandID)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The command of a process never changes while it runs.
func TestAttributionIsRemembered(t *testing.T) {
	var s Attribution
	s.SetLeader(10, "A")
	daemon := proc(15, 1, 15)
	for step, test := range []struct {
		active  map[string]bool
		list    []sandbox.Process
		want    []sandbox.Process
		leaders []int
	}{
		{set("A"), []sandbox.Process{proc(10, 0, 10), daemon}, []sandbox.Process{attributed(proc(10, 0, 10), "A"), attributed(daemon, "A")}, []int{10}},
		// B starts, and A has ended: its number may be reused.
		{set("B"), []sandbox.Process{daemon, proc(20, 0, 20)}, []sandbox.Process{attributed(daemon, "A"), attributed(proc(20, 0, 20), "B")}, []int{20}},
		// C's first process has the number of A's.
		{set("C"), []sandbox.Process{proc(10, 0, 10), proc(11, 10, 10), daemon}, []sandbox.Process{attributed(proc(10, 0, 10), "C"), attributed(proc(11, 10, 10), "C"), attributed(daemon, "A")}, []int{10}},
		{nil, nil, nil, nil},
	} {
		switch step {
		case 1:
			s.SetLeader(20, "B")
		case 2:
			s.SetLeader(10, "C")
		}
		s.Attribute(test.list, test.active)
		if diff := cmp.Diff(test.want, test.list); diff != "" {
			t.Errorf("step %d: %s", step, diff)
		}
		if leaders := slices.Sorted(maps.Keys(s.Leaders)); !slices.Equal(leaders, test.leaders) {
			t.Errorf("step %d: leaders %v, want %v", step, leaders, test.leaders)
		}
		if len(s.Known) != len(test.list) {
			t.Errorf("step %d: known %v", step, s.Known)
		}
	}
}

// The number of an empty session belongs to no command, even while its command is being
// ended: a process that gets it is not part of that command.
func TestLeaderOfAnEmptySessionIsForgotten(t *testing.T) {
	var s Attribution
	s.SetLeader(10, "A")
	s.Attribute(nil, set("A"))
	s.SetLeader(20, "B")
	other := []sandbox.Process{proc(10, 1, 10), proc(20, 0, 20)}
	s.Attribute(other, set("B"))
	if other[0].CommandID == "A" {
		t.Errorf("%+v", other)
	}
}

// Two daemons of parallel commands are unknown, and are not attributed to the last
// one when the others have ended: ending it would kill them.
func TestUnknownIsNotTheLastOnes(t *testing.T) {
	var s Attribution
	s.SetLeader(10, "A")
	s.SetLeader(20, "B")
	list := func() []sandbox.Process { return []sandbox.Process{proc(15, 1, 15), proc(20, 0, 20)} }
	s.Attribute(list(), set("A", "B"))
	for _, active := range []map[string]bool{set("B"), nil, set("B")} {
		l := list()
		s.Attribute(l, active)
		if l[0].CommandID != "" || l[1].CommandID != "B" {
			t.Errorf("%+v", l)
		}
	}
	s.Attribute(nil, nil) // all ended
	s.SetLeader(30, "C")
	l := []sandbox.Process{proc(33, 1, 33)}
	if s.Attribute(l, set("C")); l[0].CommandID != "C" {
		t.Errorf("%+v", l)
	}
}
