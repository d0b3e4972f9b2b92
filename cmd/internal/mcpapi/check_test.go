package mcpapi

import "testing"

// Once a bug: a request with such an ID was answered with another one, or not at all.
func TestIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		`0`: true, `-1`: true, `9007199254740991`: true, `1e3`: true, `1.0`: true, `""`: true, `"1.5"`: true,
		`1.5`: false, `9007199254740993`: false, `-9007199254740993`: false, `1e300`: false, `1e999`: false, `null`: false, `{}`: false, `[1]`: false, `true`: false,
	} {
		one := `{"jsonrpc": "2.0", "id": ` + id + `, "method": "ping"}`
		for _, message := range []string{one, "\n" + one, one + " x", `{"jsonrpc": "2.0", "id": ` + id + `, "ID": 7, "method": "ping"}`, `[{"jsonrpc": "2.0", "method": "notifications/initialized"}, ` + one + `]`} {
			if err := check([]byte(message)); (err == nil) != ok {
				t.Errorf("%s: %v", message, err)
			}
		}
	}
	if err := check([]byte(`{"jsonrpc": "2.0", "method": "notifications/initialized"}`)); err != nil {
		t.Error(err)
	}
}
