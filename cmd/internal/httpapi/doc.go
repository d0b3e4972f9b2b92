// Package httpapi is the room of the sidecar's HTTP API over a sandbox.Runner.
// It holds no logic of commands, and is empty until `belljar serve` is built.
package httpapi
