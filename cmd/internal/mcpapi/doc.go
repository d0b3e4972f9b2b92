// Package mcpapi will hold the MCP tools over the same sandbox.Runner as
// the HTTP API. It is empty until `belljar mcp` is built.
package mcpapi
