package oci_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"belljar/sandbox"
)

// devices are what a container has of the host's, where its runtime may not make its own: the same inodes.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// device is what root inside could change of a device.
type device struct {
	UID, GID, Mode uint32
	Old            bool // its time is what the test sets
}

func deviceOf(name string) (d device, err error) {
	var s syscall.Stat_t
	err = syscall.Stat(name, &s)
	return device{s.Uid, s.Gid, s.Mode & 0o7777, s.Mtim.Sec < 1e9}, err
}

// hostsDevices are the host's as they are now. Each that changes until the given function is called is told by that, and
// restored.
func hostsDevices() (changed func() []string) {
	before := map[string]device{}
	for _, name := range devices {
		if d, err := deviceOf(name); err == nil {
			before[name] = d
		}
	}
	return func() (list []string) {
		for name, was := range before {
			is, err := deviceOf(name)
			if err == nil && is == was {
				continue
			}
			list = append(list, fmt.Sprintf("%s was %+v, is %+v, %v", name, was, is, err))
			os.Chown(name, int(was.UID), int(was.GID))
			syscall.Chmod(name, was.Mode)
		}
		return list
	}
}

// crun gave its stdin, the host's /dev/null, to the container's root, and mounted it in the container: root inside could
// close it to the whole host.
func TestRootTakesNoDeviceOfTheHost(t *testing.T) {
	needRoot(t)
	for _, runtime := range withGVisor(t) {
		for _, user := range []sandbox.User{rootUser, nobody} {
			changed := hostsDevices()
			box := rooted(t, open(t, runtime), func(s *sandbox.Spec) {
				if s.User = user; user == nobody {
					s.Root, s.Limits.Disk = false, 0
				}
			})
			for _, told := range changed() {
				t.Errorf("%s, user %d: started: %s", runtime, user.UID, told)
			}
			out, _ := run(t, box, user, `for f in null zero full random urandom tty; do f=/dev/$f
				chmod 600 $f; chown 0:0 $f; chown 5:5 $f; touch -d 2001-01-01 $f; done 2>/dev/null
				for f in /proc/kcore /proc/keys /proc/timer_list; do chmod 600 $f; chown 0:0 $f; touch -d 2001-01-01 $f; done 2>/dev/null # /dev/null again
				for f in 0 1 2; do chmod 600 /proc/1/fd/$f; done 2>/dev/null
				echo x >/dev/null && head -c 1 /dev/zero | wc -c`)
			if out != "1\n" {
				t.Errorf("%s, user %d: %q", runtime, user.UID, out)
			}
			for _, told := range changed() {
				t.Errorf("%s, user %d: %s", runtime, user.UID, told)
			}
		}
	}
}
