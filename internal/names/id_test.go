package names

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestIDsSortByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		form := regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
		var ids []string
		for range 1000 {
			id := NewID()
			if !form.MatchString(id) || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
				t.Fatalf("%q is no ULID", id)
			}
			ids = append(ids, id)
			time.Sleep(time.Millisecond)
		}
		if !slices.IsSorted(ids) {
			t.Error("they do not sort by time")
		}
		same := map[string]bool{}
		for range 1000 {
			same[NewID()[10:]] = true
		}
		if len(same) != 1000 {
			t.Error("they repeat")
		}
	})
}

// 2000-01-01T00:00:00Z is 946684800000 ms, which the ULID's first ten digits
// spell; the bubble's clock starts there.
func TestIDHoldsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ms int64
		for _, digit := range NewID()[:10] {
			ms = ms<<5 | int64(strings.IndexRune(crockford, digit))
		}
		if ms != time.Now().UnixMilli() {
			t.Errorf("%d, want %d", ms, time.Now().UnixMilli())
		}
	})
}
