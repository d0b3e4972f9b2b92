// Package client is the room of the sandbox.Runner that talks to a belljar
// sidecar: the same interface, at the other end of a socket. It is empty until
// there is a sidecar to talk to.
package client
