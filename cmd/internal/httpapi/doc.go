// Package httpapi will hold the sidecar's HTTP API over a sandbox.Runner.
// It is empty until `belljar serve` is built.
package httpapi
