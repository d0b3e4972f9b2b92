package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
)

// What is read and written is counted without what a container sends to itself.
func TestIOBytes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("io.stat", "8:0 rbytes=100 wbytes=20 rios=7 wios=7 dbytes=9 dios=9\n252:1 rbytes=3 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n")
	write("blkio.throttle.io_service_bytes", "8:0 Read 100\n8:0 Write 20\n8:0 Sync 120\n8:0 Async 0\n8:0 Total 120\n252:1 Read 3\n252:1 Total 3\nTotal 123\n")
	write("dev", "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"+
		"    lo: 7777777      1    0    0    0     0          0         0  7777777      1    0    0    0     0       0          0\n"+
		"  eth0:    1000      8    0    0    0     0          0         0      500      6    0    0    0     0       0          0\n eth1:1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0\n")
	for name, test := range map[string]struct{ got, want int64 }{
		"v2":        {(&cgroup{v2: dir}).diskBytes(), 123},
		"v1":        {(&cgroup{blkio: dir}).diskBytes(), 123},
		"no blkio":  {(&cgroup{}).diskBytes(), 0},
		"network":   {netBytes(filepath.Join(dir, "dev")), 1503},
		"no namesp": {netBytes(filepath.Join(dir, "none")), 0},
		"engine": {ioBytes(&container.StatsResponse{
			BlkioStats: container.BlkioStats{IoServiceBytesRecursive: []container.BlkioStatEntry{{Op: "Read", Value: 100}, {Op: "write", Value: 20}, {Op: "Total", Value: 120}}},
			Networks:   map[string]container.NetworkStats{"eth0": {RxBytes: 10, TxBytes: 5}},
		}), 135},
	} {
		if test.got != test.want {
			t.Errorf("%s: %d, want %d", name, test.got, test.want)
		}
	}
}
