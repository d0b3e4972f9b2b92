package sandbox

import (
	"strconv"
	"strings"
	"time"
)

// FormatSize writes a number of bytes as people do, such as "64 MiB": up to four digits.
func FormatSize(bytes int64) string {
	units := []string{" bytes", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"}
	if bytes == 1 {
		return "1 byte"
	}
	n := float64(bytes)
	for n >= 1024 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return strconv.FormatFloat(n, 'g', 4, 64) + units[0]
}

// FormatDuration writes a duration as sandbox.yaml does: "10m", not "10m0s".
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
