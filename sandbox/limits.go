package sandbox

import "strconv"

// OfContainer returns the limits that apply to a container.
func (l Limits) OfContainer() Limits {
	l.Output = 0
	return l
}

// Check refuses limits that no command can run with.
func (l Limits) Check() error {
	for _, l := range l.each() {
		if l.tooLow() {
			return Invalid("raise limits."+l.name, "limits.%s is %s, below the minimum of %s", l.name, l.format(l.value), l.format(l.least))
		}
	}
	return nil
}

// limit is one of Limits, and the lowest value that a command can run with.
type limit struct {
	name         string
	value, least float64
	format       func(float64) string
}

func (l limit) tooLow() bool { return !(l.value >= l.least) } // also true for NaN

func (l Limits) each() []limit {
	return []limit{
		{"memory", float64(l.Memory), 6 << 20, asSize}, // the engine's own minimum
		{"cpus", l.CPUs, 0.01, decimal},
		{"pids", float64(l.Pids), 4, decimal}, // init, keeper, sh and one command
		{"output", float64(l.Output), 1 << 10, asSize},
		{"tmp", float64(l.Tmp), 64 << 10, asSize},
		{"files", float64(l.Files), 16, decimal},
	}
}

// decimal writes no exponent, which %v does.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func asSize(f float64) string { return FormatSize(int64(f)) }
