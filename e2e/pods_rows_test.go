package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

const (
	oneProcess = "one belljar at a time uses a session over pods: docs/kubernetes.md"
	hostFiles  = "it mounts a directory of belljar's host: a pod sees none"
	ownFaults  = "what goes wrong with pods and clusters has tests of its own, in sandbox/kubernetes"
	rootOfPods = "root is refused over pods"
)

// notInPods are the tests that cannot hold in a pod, and why. Over pods, a test that is skipped and is not here fails.
var notInPods = map[string]string{
	"TestScripts":                           "lines with [!kubernetes]: mounts, belljar mcp, images of belljar's own, limits on processes and on the number of files, and docker's command", // the rest runs
	"TestScripts/config_untrusted":          hostFiles,
	"TestAdversarial/E14":                   hostFiles,
	"TestStopGraceInASession":               hostFiles,
	"TestInterruptsAndStopGrace":            hostFiles,
	"TestDetachRefuses":                     hostFiles,
	"TestIdleWhileWaitingForInput":          "what a process of a pod waits for is not seen",
	"TestSignalWhileWaitingForTheTurn":      oneProcess,
	"TestSessionEndsDuringACommand/removed": oneProcess,
	"TestSessionWithoutRoom":                "the kubelet bounds a pod's processes, here to 512",
	"TestSilentSessionIsRemoved":            ownFaults,
	"TestSessionFilesTraps":                 hostFiles,
	"TestSessionFilesCanceled":              oneProcess,
	"TestSessionFilesBusy":                  oneProcess,
	"TestPartialOutput/engine_lost":         ownFaults,
	"TestDetach":                            hostFiles,
	"TestSidecarWhoseEngineIsKilled":        ownFaults,
	"TestAdversarial/R13":                   "Kubernetes keeps a pod's output on its node, and bounds it: docs/kubernetes.md",
	"TestAdversarial/R15":                   "a pod's terminals are bounded by those of its node",
	"TestAdversarial/R16":                   hostFiles,
	"TestAdversarial/N16":                   rootOfPods,
	"TestAdversarial/S4":                    hostFiles,
	"TestAdversarial/I7":                    "belljar has no images of its own over pods, and imports none",
	"TestAdversarial/N5_others":             "a pod's commands are one user's",
	"TestAdversarial/N9":                    "the kubelet bounds a pod's processes, here to 512",
	"TestAdversarial/N10":                   hostFiles,
	"TestAdversarial/N11":                   hostFiles,
	"TestAdversarial/N15":                   rootOfPods,
	"TestAdversarial/root_installs":         rootOfPods,
	"TestAdversarial/F1":                    ownFaults,
	"TestAdversarial/F3":                    ownFaults,
	"TestAdversarial/F3-ended":              ownFaults,
	"TestAdversarial/F3-resumed":            ownFaults,
	"TestAdversarial/F4":                    ownFaults,
	"TestAdversarial/F4-ended":              ownFaults,
	"TestAdversarial/F4-stopped":            ownFaults,
	"TestAdversarial/F7":                    ownFaults,
	"TestAdversarial/F8":                    ownFaults,
	"TestAdversarial/F10":                   ownFaults,
	"TestAdversarial/F11":                   ownFaults,
	"TestAdversarial/F-down":                ownFaults,
	"TestAdversarial/F-permission":          ownFaults,
	"TestAdversarial/F-groups":              ownFaults,
	"TestAdversarial/F-version":             ownFaults,
}

// wantPods leaves out what cannot hold in a pod, where the tests run over pods. scripts/kubernetes tells what that was.
func wantPods(t *testing.T) {
	t.Helper()
	if why := notInPods[t.Name()]; onPods() && t.Name() != "TestScripts" && why != "" {
		t.Attr("not-in-pods", why)
		t.Skip(why)
	}
}

// scriptsOverPods are those of testdata that can hold in a pod.
func scriptsOverPods(t *testing.T) (list []string) {
	t.Helper()
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	t.Attr("not-in-pods", notInPods[t.Name()])
	for _, file := range all {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if notInPods[t.Name()+"/"+name] == "" {
			list = append(list, file)
			continue
		}
		t.Run(name, wantPods)
	}
	return list
}
