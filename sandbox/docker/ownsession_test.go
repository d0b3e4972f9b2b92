package docker_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/docker"
)

// ownSession makes a session that ends with its engine.
func ownSession(t *testing.T, engine *docker.Engine, name string) sandbox.Container {
	t.Helper()
	spec := specOf(baseImage(t, engine))
	spec.Session, spec.Deadline = name, time.Now().Add(time.Hour)
	box, err := engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	removeAfter(t, engine, box.Info().ID)
	return box
}

func sessionsNamed(t *testing.T, engine *docker.Engine, name string) []sandbox.Kept {
	t.Helper()
	list, err := engine.Sessions(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A session of this process alone has a name that others may use, too. It is not an
// orphan while this process lives, and ends with its engine.
func TestOwnSessions(t *testing.T) {
	t.Parallel()
	shared, own := connect(t), connect(t)
	own.Dir, own.OwnSessions = shared.Dir, true
	box, spec := sessionOf(t, shared, time.Hour)
	name := spec.Session
	if list := sessionsNamed(t, own, name); len(list) != 0 {
		t.Errorf("it sees a shared session: %+v", list)
	}
	mine := ownSession(t, own, name)
	if list := sessionsNamed(t, shared, name); len(list) != 1 || list[0].ID != box.Info().ID {
		t.Errorf("others see %+v, want only the shared one", list)
	}
	if m := managedAs(t, shared, mine.Info().ID); m.Orphaned || m.Session != name {
		t.Errorf("%+v", m)
	}
	// A container that no one has open stays, can be opened again, and removed.
	mine.Close()
	list := sessionsNamed(t, own, name)
	if len(list) != 1 || list[0].ID != mine.Info().ID {
		t.Fatalf("after Close there is %+v", list)
	}
	again, err := own.Adopt(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	(&inside{own, again, spec}).wants(t, check{"echo alive", "alive"})
	if err := again.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	again.Close()
	// The engine's end is that of the rest.
	last := ownSession(t, own, name)
	last.Close()
	if err := own.Close(); err != nil {
		t.Error(err)
	}
	waitFor(t, "the session ends with its engine", func() bool { return !there(t, shared, last.Info().ID) })
}

// Such a session ends with its process, also if that is killed.
func TestOwnSessionEndsWithItsMaker(t *testing.T) {
	engine := connect(t)
	baseImage(t, engine)
	maker := exec.Command(os.Args[0], "-test.run=^TestMakeSession$")
	maker.Env = append(os.Environ(), makerEnv+"=own", makerEnv+"_DIR="+engine.Dir, makerEnv+"_OWN=1")
	id := madeBy(t, maker)
	removeAfter(t, engine, id)
	if !there(t, engine, id) {
		t.Fatal("there is no session")
	}
	maker.Process.Kill()
	maker.Wait()
	waitFor(t, "the session ends with its maker", func() bool { return !there(t, engine, id) })
}

// Where a crash of the engine left one, any belljar removes it.
func TestOwnSessionIsSwept(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	engine.OwnSessions = true
	spec := specOf(baseImage(t, engine))
	spec.Session, spec.Deadline = "left", time.Now().Add(time.Hour)
	id, err := docker.MakeAs(t.Context(), engine, "1@1", spec)
	if err != nil {
		t.Fatal(err)
	}
	removeAfter(t, engine, id)
	other := connect(t)
	other.Dir = engine.Dir
	if m := managedAs(t, other, id); !m.Orphaned {
		t.Errorf("%+v is no orphan", m)
	}
	if _, err := other.Sweep(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if there(t, engine, id) {
		t.Error("it is still there")
	}
}

// madeBy starts TestMakeSession, and returns the container that it made.
func madeBy(t *testing.T, maker *exec.Cmd) string {
	t.Helper()
	out, err := maker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := maker.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for b := make([]byte, 4096); ; {
		n, err := out.Read(b)
		said.Write(b[:n])
		if _, after, found := bytes.Cut(said.Bytes(), []byte("\nmade ")); found {
			if id, _, whole := bytes.Cut(after, []byte("\n")); whole {
				return string(id)
			}
		}
		if err != nil {
			t.Fatalf("the maker said %s: %v", &said, err)
		}
	}
}
