// Package kubernetes is the sandbox.Engine over the pods of a Kubernetes cluster.
//
//	engine, err := kubernetes.Open(kubernetes.Config{InitImage: "registry.example.com/belljar:1"}) // as kubectl finds the cluster
//	defer engine.Close()
//
// The one rule: a pod that is no session's ends with the connection of the process that made it, and what is left of it is
// removed by any other belljar.
//
// # Design
//
// A container is a pod with one container, whose main process is belljar's init, package internal/boxinit. An init container of
// belljar's own image copies the program into a volume. This process attaches to the main process by a websocket. Commands,
// their streams, signals, lists and what the kernel counted go over that as frames, so a command takes no request to
// the API server. The end of the attachment is the end of the init's stdin, and so its own.
//
// A pod has what PodSecurity calls restricted, and no capability at all. So the init is the commands' user, and a pod's
// commands are one user's. The init forbids sockets of a network by seccomp: whether a cluster enforces a
// NetworkPolicy cannot be known.
//
// An image is resolved by a pod of it: its kubelet says which digest it has, and the init which volumes and users. Nothing
// of the image runs.
//
// Each process that makes pods has a Lease, which it renews, and each pod names it. A pod whose Lease has ended is an
// orphan, which Sweep deletes. The clock is the API server's. A session's pod is known by its UID, from a record of this
// user's, never by labels: anyone who may make pods may choose those.
//
// Not done: networks, mounts, root, several users in a pod, a limit of processes of the pod's own.
package kubernetes
