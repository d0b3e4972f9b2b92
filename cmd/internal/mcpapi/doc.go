// Package mcpapi is the room of the MCP tools over the same sandbox.Runner as
// the HTTP API's. It is empty until `belljar mcp` is built.
package mcpapi
