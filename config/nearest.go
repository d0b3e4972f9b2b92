package config

import (
	"slices"
	"strings"
)

// unknown says that no key of the table has that name, and which one may be
// meant.
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

// nearest is the key or group beside name that is spelt alike, or else the key
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

// distance is how many letters are to be added, left out or replaced to make b
// of a (Levenshtein). A key of a hostile length is simply far off.
func distance(a, b string) int {
	if len(b) > 64 {
		return len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
