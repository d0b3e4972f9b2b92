package local

import (
	"strings"
	"time"

	"github.com/docker/go-units"
)

// sizeUnits are those that go-units writes, apart from the number.
var sizeUnits = []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// size is a number of bytes as people write it: 64 MiB.
func size(n int64) string { return units.CustomSize("%.4g %s", float64(n), 1024, sizeUnits) }

// duration is one as people write it: 10m, not 10m0s.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
