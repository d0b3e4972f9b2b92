package config

import (
	"belljar/internal/lazyregexp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"go.yaml.in/yaml/v3"

	"belljar/sandbox"
)

// kind is a kind of value: how it is read and its schema.
// Either scalar or list is set.
type kind struct {
	schema map[string]any
	tags   []string // types that YAML may guess for the scalar, before it is read as text

	// scalar reads a value. Relative paths in it are relative to dir.
	scalar func(text, dir string) (any, *Problem)
	// list reads the items of the list that is called name, and reports what
	// is wrong with each.
	list func(r *reader, name string, items []*yaml.Node) any
}

const (
	tagString = "!!str"
	tagInt    = "!!int"
	tagFloat  = "!!float"
	tagBool   = "!!bool"
)

const second = time.Second

var bareNumber = lazyregexp.New(`^[0-9.]{1,15}$`)

func duration(least time.Duration) kind { return durationTo(least, math.MaxInt64, "") }

// durationTo refuses a bare number, which Go and viper take for nanoseconds.
func durationTo(least, most time.Duration, mostText string) kind {
	return kind{
		schema: map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, "examples": []string{"30s", "10m", "1h30m"}},
		tags:   []string{tagString, tagInt, tagFloat},
		scalar: func(text, _ string) (any, *Problem) {
			if bareNumber.MatchString(text) && (text != "0" || least <= 0) {
				return nil, wrong("write "+text+"s", "%s has no unit", text)
			}
			d, err := time.ParseDuration(text)
			if err != nil {
				return nil, wrong("write 30s, 10m or 1h30m", "%s is not a duration", said(text))
			}
			switch {
			case d < least:
				return nil, wrong("at least "+sandbox.FormatDuration(least), "%s is too short", text)
			case d > most:
				return nil, wrong("at most "+mostText, "%s is too long", text)
			}
			return d, nil
		},
	}
}

// orZero is k, a duration, or 0, which means none.
func orZero(k kind, none time.Duration) kind {
	timed := k.scalar
	k.schema = map[string]any{"anyOf": []any{k.schema, map[string]any{"const": 0}}}
	k.scalar = func(text, dir string) (any, *Problem) {
		if text == "0" || text == "0s" {
			return none, nil
		}
		d, problem := timed(text, dir)
		if problem != nil && strings.HasPrefix(problem.Hint, "at least") {
			problem.Hint += ", or 0 for none"
		}
		return d, problem
	}
	return k
}

// maxSize keeps sizes where go-units' float is exact enough
// and nothing overflows.
const maxSize = 1 << 50

var sizePattern = lazyregexp.New(`^[0-9]+(\.[0-9]+)? ?([kKmMgGtT][iI]?[bB]?|[bB])$`)

func size(least int64, leastText string) kind { return sizeTo(least, leastText, maxSize, "1024TiB") }

// sizeTo is a number of bytes, as docker reads it: 512m and 512MB are 512MiB.
func sizeTo(least int64, leastText string, most int64, mostText string) kind {
	return kind{
		schema: map[string]any{"type": "string", "pattern": sizePattern.String(), "examples": []string{"64KiB", "512MiB", "2GiB"}},
		tags:   []string{tagString, tagInt, tagFloat},
		scalar: func(text, _ string) (any, *Problem) {
			if bareNumber.MatchString(text) && (text != "0" || least <= 0) {
				return nil, wrong("write "+withUnit(text), "%s has no unit", text)
			}
			if !sizePattern.MatchString(text) {
				return nil, wrong("write 512MiB or 2GiB", "%s is not a size", said(text))
			}
			n, err := units.RAMInBytes(text)
			switch {
			case err != nil || n > most || n < 0:
				return nil, wrong("at most "+mostText, "%s is too large", text)
			case n < least:
				return nil, wrong("at least "+leastText, "%s is too small", text)
			}
			return n, nil
		},
	}
}

// withUnit guesses what a bare number of bytes was meant to be.
func withUnit(text string) string {
	if len(text) < 6 {
		return text + "MiB"
	}
	return text + "B"
}

func integer(least, most int64) kind {
	return kind{
		schema: map[string]any{"type": "integer", "minimum": least, "maximum": most},
		tags:   []string{tagInt},
		scalar: func(text, _ string) (any, *Problem) {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, wrong(fmt.Sprintf("write a whole number, at least %d", least), "%s is not a number", said(text))
			}
			if n < least || n > most {
				return nil, wrong(bounds(float64(least), float64(most)), "%d is out of range", n)
			}
			return n, nil
		},
	}
}

func number(least, most float64) kind {
	return kind{
		schema: map[string]any{"type": "number", "minimum": least, "maximum": most},
		tags:   []string{tagInt, tagFloat},
		scalar: func(text, _ string) (any, *Problem) {
			f, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, wrong("write a number such as 1 or 0.5", "%s is not a number", said(text))
			}
			if math.IsNaN(f) || f < least || f > most {
				return nil, wrong(bounds(least, most), "%s is out of range", text)
			}
			return f, nil
		},
	}
}

func bounds(least, most float64) string {
	if least == most {
		return fmt.Sprintf("write %v", least)
	}
	return fmt.Sprintf("from %v to %v", least, strconv.FormatFloat(most, 'f', -1, 64))
}

func enum(values ...string) kind {
	return kind{
		schema: map[string]any{"type": "string", "enum": values},
		tags:   []string{tagString},
		scalar: func(text, _ string) (any, *Problem) {
			if !slices.Contains(values, text) {
				return nil, wrong("write one of "+strings.Join(values, ", "), "%s is not valid", said(text))
			}
			return text, nil
		},
	}
}

var boolean = kind{
	schema: map[string]any{"type": "boolean"},
	tags:   []string{tagBool},
	scalar: func(text, _ string) (any, *Problem) {
		if text != "true" && text != "false" {
			return nil, wrong("write true or false", "%s is not true or false", said(text))
		}
		return text == "true", nil
	},
}

// optional is k, or empty for none.
func optional(k kind) kind { return orEmpty(k, "") }

// orEmpty lets a value be empty, which then is unset.
func orEmpty(k kind, unset any) kind {
	scalar := k.scalar
	k.schema = map[string]any{"anyOf": []any{k.schema, map[string]any{"const": ""}}}
	k.scalar = func(text, dir string) (any, *Problem) {
		if text == "" {
			return unset, nil
		}
		return scalar(text, dir)
	}
	return k
}
