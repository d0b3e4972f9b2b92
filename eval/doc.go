// Package eval scores untrusted solutions of tasks, and is made not to be fooled by one.
//
// The one rule: what a solution can touch never decides about it alone. The agent's container
// holds no tests; artifacts are graded in a fresh one, next to tests that it may not
// write; what passes is graded again against controls, tests that must fail, and if
// one of them passes, too, the trial is tampered. A failure of the engine or of
// belljar is an error of the infrastructure, never the solution's.
//
//	h := &eval.Harness{Runner: runner, Dir: dir, Tasks: tasks}
//	err := h.Run(ctx)
//
// # Design
//
// Everything runs through a sandbox.Runner. A container of several steps is a
// session, which is removed after its last step; its name begins with the run's ID, so that
// a resumed run finds what a killed one left. Those for grading are made ahead: see spare. A trial's result is
// written once its containers are gone, while the next trial begins. What is in memory there is gone once a
// container is stopped, so artifacts are taken out of a container whose processes were
// all killed: kill(-1, SIGKILL) by their own user leaves none, also of those that fork.
package eval
