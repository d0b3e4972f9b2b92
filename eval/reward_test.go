package eval

import (
	"fmt"
	"strings"
	"testing"
)

// A reward is one finite number, and what could be read as another is none.
func TestRewards(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"reward.txt", " 1\n", "1"},
		{"reward.txt", "0.5", "0.5"},
		{"reward.txt", "-0", "-0"},
		{"reward.txt", "+1e0\r\n", "1"},
		{"reward.txt", "", "not a number"},
		{"reward.txt", "1\n0", "not a number"},
		{"reward.txt", "nan", "not a number"},
		{"reward.txt", "inf", "not a number"},
		{"reward.txt", "1e999", "not a number"},
		{"reward.txt", "1e300", "not a number"},
		{"reward.txt", "0x1p4", "not a number"},
		{"reward.txt", "1,0", "not a number"},
		{"reward.txt", "\uFEFF1", "not a number"},
		{"reward.json", `{"reward": 1, "other": 0}`, "1"},
		{"reward.json", `{"a": 1, "b": 0.25}`, "0.25"},
		{"reward.json", `{"reward": 0, "reward": 1}`, "does not have names with numbers"},
		{"reward.json", `{"reward": 1}{"reward": 0}`, "does not have names with numbers"},
		{"reward.json", `{"reward": 1e300, "a": 1}`, "is not a number"},
		{"reward.json", `{"reward": null}`, "is not a number"},
		{"reward.json", `{"reward": true}`, "does not have names with numbers"},
		{"reward.json", `{"reward": {"reward": 1}}`, "does not have names with numbers"},
		{"reward.json", `{}`, "does not have names with numbers"},
		{"reward.json", `1`, "does not have names with numbers"},
		{"reward.json", "{\"a\xff\": 1}", "does not have names with numbers"},
	} {
		reward, _, err := parseReward(c.name, c.text)
		got := fmt.Sprint(reward)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s %q: %s, want %s", c.name, c.text, got, c.want)
		}
	}
}
