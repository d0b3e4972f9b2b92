package e2e

import (
	"os/exec"
	"testing"

	"belljar/internal/enginetest"
)

// A Docker that maps users contains root as the engine without a daemon does, and what root writes.
func TestRootOnDocker(t *testing.T) {
	needDocker(t)
	d := enginetest.NewRemapped(t)
	build := exec.Command(binary, "images", "build", "base")
	if d.Enter(build); build.Err != nil {
		t.Fatal(build.Err)
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the base image: %v: %s", err, out)
	}
	for name, do := range map[string]func(*testing.T, func(*exec.Cmd)){
		"N13": rootContained, "N14": rootBounded, "N15": nothingOfRootsOutside, "N16": initNotStarved, "root installs": rootInstalls,
		"what is left is listed": rootsLeftovers, "the engine's files": noFilesOfTheEngines,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			do(t, d.Enter)
		})
	}
}

// Processes are listed by their users inside, also those that root starts as the init's.
func rootsLeftovers(t *testing.T, as func(*exec.Cmd)) {
	a := askAs(t, as, append(rootInside(t), `echo 'keeper:x:65533:65533::/:/bin/sh' >>/etc/passwd
sleep 1000 & su keeper -c 'sleep 1001 &'; until [ $(cat /proc/[0-9]*/comm 2>&- | grep -c ^sleep) = 2 ]; do :; done
kill -STOP 1; kill -9 1; echo done`)...)
	a.ended(t, 0, "")
	a.says(t, "done\n")
	users := map[string]int{}
	for _, p := range a.Lingering {
		users[p.Command] = p.UID
	}
	if len(users) != 2 || users["sleep 1000"] != 0 || users["sleep 1001"] != 65533 {
		t.Errorf("%s", a.json)
	}
	a.nothingLives(t)
}

// What a container may write to is in memory: none of the files that the engine gives it, which are on its disk.
func noFilesOfTheEngines(t *testing.T, as func(*exec.Cmd)) {
	a := askAs(t, as, append(rootInside(t), `for f in $(cut -d' ' -f5 /proc/self/mountinfo); do [ ! -f $f ] || { (echo >>$f) 2>/dev/null && echo WROTE $f; }; done
cut -d' ' -f6- /proc/self/mountinfo | grep ^rw | sed 's/.* - //' | cut -d' ' -f1 | grep -Ev '^(cgroup2?|proc|devpts|devtmpfs|mqueue)$' | sort -u | tr '\n' ' '; hostname; cat /etc/hostname; cat /etc/hosts | wc -l`)...)
	a.ended(t, 0, "")
	a.says(t, "overlay tmpfs belljar\nbelljar\n2\n")
}
