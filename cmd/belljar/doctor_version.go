package main

import (
	"belljar/internal/lazyregexp"
	"cmp"
	"math"
	"slices"
	"strconv"
)

// hole is a known vulnerability, and the first release of each branch in which
// it is fixed.
type hole struct {
	ids   []string
	fixed []release
}

var (
	// runcHoles are ways out of a container; see runc's GHSA-9493-h29p-rfm2,
	// GHSA-qw9x-cqr3-wc7r, GHSA-cgrx-mc8f-2prm and GHSA-xr7r-f8xq-vfvv.
	runcHoles = []hole{
		{[]string{"CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"}, []release{{1, 2, 8, final}, {1, 3, 3, final}, {1, 4, 0, 3}}},
		{[]string{"CVE-2024-21626"}, []release{{1, 1, 12, final}}},
	}
	// engineHoles matter where commands have a network; see moby's
	// GHSA-mq39-4gv4-mvpx.
	engineHoles = []hole{
		{[]string{"CVE-2024-29018"}, []release{{23, 0, 11, final}, {25, 0, 5, final}, {26, 0, 0, 3}}},
	}
)

// release is a version: final or, below that, a candidate.
type release struct{ major, minor, patch, candidate int }

const final = math.MaxInt

// versionPattern ignores what distributions append, as in 1.2.5-0ubuntu1.
var versionPattern = lazyregexp.New(`^v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-~](alpha|beta|rc)\.?(\d*))?`)

func parseVersion(text string) (release, bool) {
	m := versionPattern.FindStringSubmatch(text)
	if m == nil {
		return release{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(m[i]); return n }
	v := release{number(1), number(2), number(3), final}
	switch m[4] {
	case "rc":
		v.candidate = number(5)
	case "alpha", "beta":
		v.candidate = -1
	}
	return v, true
}

func (v release) compare(w release) int {
	return cmp.Or(cmp.Compare(v.major, w.major), cmp.Compare(v.minor, w.minor), cmp.Compare(v.patch, w.patch), cmp.Compare(v.candidate, w.candidate))
}

func (v release) less(w release) bool { return v.compare(w) < 0 }

// has reports whether v is vulnerable: neither fixed in its branch nor newer than all.
func (h hole) has(v release) bool {
	if !v.less(slices.MaxFunc(h.fixed, release.compare)) {
		return false
	}
	return !slices.ContainsFunc(h.fixed, func(f release) bool {
		return v.major == f.major && v.minor == f.minor && !v.less(f)
	})
}

// unfixed are the names of the vulnerabilities in v.
func unfixed(v release, holes []hole) []string {
	var ids []string
	for _, h := range holes {
		if h.has(v) {
			ids = append(ids, h.ids...)
		}
	}
	return ids
}
