// Package mcpapi is belljar as a server of the Model Context Protocol: tools that run commands,
// read their output and use the files of sessions, over HTTP and over stdin and stdout.
//
// The one rule: it decides nothing. What may run, how it ends and what is kept is the Runner's;
// whose it is, package owned's; who may approve, the token's. A command that fails is an
// ordinary result of a tool; isError is for refusals and failures of belljar's own, and says
// what to do next.
//
//	server := &mcpapi.Server{Book: book, Owners: owners, Sessions: runner, Files: runner, …}
//	defer server.Close()
//	mux.Handle("/mcp", server.Handler())
//	err := server.Stdio(ctx, os.Stdin, os.Stdout, access.Local)
//
// # Design
//
// A tool call lives as long as someone waits for its answer: a canceled call, a closed stream
// and the end of stdin kill its command, in every version of the protocol, because no stream can
// be continued here. What is to outlive its call is an execution, which has an ID: a command that
// takes longer than yield_seconds goes on, and the answer names it. Shells are sessions, which
// are arguments, too.
//
// Protocol 2026-07-28 has no sessions of its own, and every request stands alone. Earlier ones
// have them: a session belongs to the token that began it, and each call in it has the rights
// of the token that it came with.
//
// What the policy asks about goes to the person at the client, by elicitation, if the client can
// show it and its token has the scope approve: that person answers in the token's name. Otherwise
// the question waits at /v1/approvals, for someone who has the scope.
package mcpapi
