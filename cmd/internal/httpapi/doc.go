// Package httpapi is the sidecar's HTTP API v1 over a sandbox.Runner and the small
// interfaces beside it.
//
// The one rule: it decides nothing. What may run, how it ends and what is kept is the
// Runner's; whose it is and which events a client has is the executions.Book's.
//
//	server := &httpapi.Server{Book: book, Sessions: runner, …}
//	handler := guard.Wrap(server.Handler())
//
// # Design
//
// The OpenAPI document comes from the Go types of the requests. Results and events have
// JSON of their own, in the contract, which schema.go describes and a test compares.
// Streams write to the connection themselves: each write has StallTime, and a stream that
// cannot be finished is aborted, so that no one takes a part of it for the whole.
package httpapi
