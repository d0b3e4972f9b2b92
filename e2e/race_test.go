//go:build race

package e2e

// raceFlags build a belljar that watches itself as the tests are watched.
var raceFlags = []string{"-race"}
