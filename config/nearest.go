package config

import (
	"slices"
	"strings"
)

// unknown says that no key of the table has that name, and suggests a
// similar one.
func unknown(table []key, name string) *Problem {
	_, isKey := findKey(keys, name)
	if isKey || isGroup(keys, name) || name == profilesKey {
		return wrong("set it at the top level", "a profile cannot set this key")
	}
	return misspelt(table, name)
}

func misspelt(table []key, name string) *Problem {
	if nearest := nearest(table, name); nearest != "" {
		return wrong("did you mean "+nearest+"?", "unknown key")
	}
	return wrong("`belljar config schema` lists the keys", "unknown key")
}

// nearest is the key or group with a similar name in the same group, or else the key
// of the same name elsewhere.
func nearest(table []key, name string) string {
	group, last := "", name
	if i := strings.LastIndex(name, "."); i >= 0 {
		group, last = name[:i+1], name[i+1:]
	}
	best, least := "", min(3, 1+(len(last)+1)/4) // one letter of three may differ, two of seven
	for _, k := range append(slices.Clone(table), key{name: profilesKey}) {
		if beside, ok := strings.CutPrefix(k.name, group); ok {
			beside, _, _ = strings.Cut(beside, ".")
			if d := distance(beside, last); d < least {
				best, least = group+beside, d
			}
		}
	}
	if best != "" {
		return best
	}
	i := slices.IndexFunc(table, func(k key) bool { return strings.HasSuffix(k.name, "."+last) })
	if i < 0 {
		return ""
	}
	return table[i].name
}

// misspeltField reports an unknown field of a list's item, and suggests one of these.
func misspeltField(what, name string, fields ...string) *Problem {
	has := what + " has " + strings.Join(fields[:len(fields)-1], ", ") + " and " + fields[len(fields)-1]
	table := make([]key, len(fields))
	for i, field := range fields {
		table[i].name = field
	}
	if nearest := nearest(table, name); slices.Contains(fields, nearest) {
		return wrong("did you mean "+nearest+"? "+has, "unknown key")
	}
	return wrong(has, "unknown key")
}

// distance is how many letters to add, drop, replace or swap with the next to turn a
// into b (optimal string alignment). A key of hostile length simply has a large
// distance.
func distance(a, b string) int {
	if len(b) > 64 {
		return len(b)
	}
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
