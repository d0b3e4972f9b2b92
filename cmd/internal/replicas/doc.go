// Package replicas makes several sidecars of a cluster one for their callers: each finds the executions, sessions and
// idempotency keys of the others, and sends a request on to the one that it is about.
//
// The one rule: a request is sent on once, and only where it is certain that nothing of it began is it sent to another.
// What ended with its replica is said to be gone, and never guessed.
//
//	r, err := replicas.Join(ctx, replicas.Config{Name: name, Address: ip, Port: 8443, Store: engine.Shared(""), …})
//	defer r.Close()
//	handler := r.Wrap(api) // behind the guard
//	// in the handler that starts commands:
//	to, err := r.Place(ctx, replicas.Request{Owner: "ci", Key: "build-7", Session: "dev"})
//
// # Design
//
// What replicas write down for each other are Leases: of each replica, with its address; of each session, with who has it and
// which pod is its; of each idempotency key, with who ran its request. Who can write these decides where requests
// and their tokens go, so they are in a namespace where only belljar writes, and TLS verifies who answers.
//
// The ID of an execution ends with the name of its replica. So nothing is asked of the API server for a command, nor for
// what is read of it. A replica's name is in its state directory, as its executions are.
//
// A session's home is the replica that its Lease names. All about a session is done there, so that turns, limits and what is
// recorded are those of one process. A replica that is about to end gives its sessions back, with what it recorded; of one that
// was killed, others take them when its Lease has ended, and know only the pod.
//
// What is asked of the API server may be done without an answer, or after it was said to have failed. So what has to be certain, such
// as that a session is still this replica's, is written and not only read: an entry changes once.
//
// All methods of a nil *Replicas do what a sidecar does that is alone.
package replicas
