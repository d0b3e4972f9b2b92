// Package e2e tests the built binary against a real Docker engine, and the
// house's layering. It has no code of its own.
package e2e
