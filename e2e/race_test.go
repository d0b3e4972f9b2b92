//go:build race

package e2e

// raceFlags build belljar with the race detector, as the tests are.
var raceFlags = []string{"-race"}
