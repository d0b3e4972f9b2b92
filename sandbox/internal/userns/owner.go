package userns

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// changing is held while a thread is another user: the kernel keeps one mark for all threads of whether the process can be
// traced by others of its user.
var changing sync.Mutex

// asUser calls f on the calling thread, which its goroutine must be locked to, as a user with this process's rights. Who
// makes a user namespace is its owner. Files are found as before.
func asUser(id int, f func() error) (err error) {
	changing.Lock()
	defer changing.Unlock()
	had, err := capabilities()
	if err != nil {
		return err
	}
	traceable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	if err := setEffective(id); err != nil {
		return fmt.Errorf("becoming user %d: %w", id, err)
	}
	defer func() {
		for setEffective(0) != nil { // which fails only while the kernel has no memory for it
			time.Sleep(time.Millisecond)
		}
		setCapabilities(had)
		if traceable == 1 {
			unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		}
	}()
	all := had
	for i := range all {
		all[i].Effective = all[i].Permitted // another user than 0 has none at first
	}
	if err := setCapabilities(all); err != nil {
		return err
	}
	return f()
}

// setEffective changes the thread's effective user. For files it stays user 0.
func setEffective(id int) error {
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(id), same); errno != 0 {
		return errno
	}
	return unix.Setfsuid(0)
}

func capabilities() (data [2]unix.CapUserData, err error) {
	err = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return data, err
}

func setCapabilities(data [2]unix.CapUserData) error {
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
}
