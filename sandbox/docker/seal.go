package docker

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
)

const (
	keyFile = "engine.key" // in Engine.Dir
	keySize = 32
)

// sealer recognizes the containers that belljar made for this user, whatever labels
// others have: an image's labels become its containers'.
type sealer struct {
	key []byte
	err error // why the key is temporary, and cannot seal what other processes need
}

// seals is the sealer with the key in Dir, or with a temporary key.
func (e *Engine) seals() sealer {
	e.sealing.Do(func() {
		if e.Dir != "" {
			e.sealer.key, e.sealer.err = sealKey(e.Dir)
		}
		if e.sealer.key == nil {
			e.sealer.key = newKey()
		}
	})
	return e.sealer
}

func newKey() []byte {
	key := make([]byte, keySize)
	rand.Read(key)
	return key
}

// sealKey reads the key in dir, which is made where there is none.
func sealKey(dir string) ([]byte, error) {
	file := filepath.Join(dir, keyFile)
	key, err := readKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	fresh, err := os.CreateTemp(dir, keyFile+"-*") // 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.Write(newKey())
	if err = errors.Join(err, fresh.Close()); err != nil {
		return nil, err
	}
	// The first process's key stays.
	if err := os.Link(fresh.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readKey(file)
}

// readKey refuses a key that another user could have written or read.
func readKey(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return nil, err
	}
	if s.Mode != unix.S_IFREG|0o600 || int(s.Uid) != os.Geteuid() || s.Size != keySize {
		return nil, fmt.Errorf("%s is not a private key of this user: remove it", file)
	}
	key := make([]byte, keySize)
	if _, err := io.ReadFull(f, key); err != nil {
		return nil, err
	}
	return key, nil
}

// seal makes the seal of a new container. No two are the same.
func (s sealer) seal(name string, labels map[string]string) string {
	return s.sign(rand.Text(), name, labels)
}

func (s sealer) sign(nonce, name string, labels map[string]string) string {
	mac := hmac.New(sha256.New, s.key)
	text := func(t string) { fmt.Fprintf(mac, "%d:%s", len(t), t) }
	text(nonce)
	text(name)
	for _, l := range sealed {
		text(labels[l])
	}
	for _, l := range sealedIfSet {
		if labels[l] != "" {
			text(l + "=" + labels[l])
		}
	}
	return nonce + "." + hex.EncodeToString(mac.Sum(nil))
}

// verify reports whether a container of that name was made with these labels by a
// belljar that has the key.
func (s sealer) verify(name string, labels map[string]string) bool {
	nonce, _, _ := strings.Cut(labels[labelSeal], ".")
	return hmac.Equal([]byte(labels[labelSeal]), []byte(s.sign(nonce, strings.TrimPrefix(name, "/"), labels)))
}

// checkOurs refuses a container that belljar did not make. Its name and labels
// may be reused once that is gone; so its lock-down is compared as well.
func (e *Engine) checkOurs(about container.InspectResponse) error {
	if !e.seals().verify(about.Name, about.Config.Labels) {
		return errors.New("its labels are not sealed by this user's belljar")
	}
	if err := checkLockdown(about.HostConfig, about.Config.Labels[labelDisk] != ""); err != nil {
		return err
	}
	if hasInit(about) {
		return checkInit(about)
	}
	return checkKeeper(about.HostConfig)
}

// checkLockdown compares the engine's description of a container with what every
// version of belljar makes.
func checkLockdown(h *container.HostConfig, writable bool) error {
	security := strings.Join(h.SecurityOpt, "\n")
	return firstNot([]fact{
		{!h.Privileged, "it is privileged"},
		{len(h.CapDrop) == 1 && h.CapDrop[0] == "ALL", "it has capabilities"},
		{len(h.SecurityOpt) == 2 && strings.Contains(security, "no-new-privileges") && strings.Contains(security, "seccomp={"), "its security options are others"},
		{h.ReadonlyRootfs != writable, "its root is writable, or should be"},
		{h.PidMode == "" && h.IpcMode.IsPrivate() && h.UTSMode == "" && h.UsernsMode == "" && h.CgroupnsMode.IsPrivate() && !h.NetworkMode.IsHost() && !h.NetworkMode.IsContainer(), "it shares namespaces"},
		{len(h.Devices) == 0 && len(h.DeviceRequests) == 0 && len(h.DeviceCgroupRules) == 0, "it has devices"},
		{len(h.Binds) == 0 && len(h.VolumesFrom) == 0, "it has volumes"},
		{len(h.GroupAdd) == 0, "it has further groups"},
		{h.AutoRemove && h.RestartPolicy.IsNone(), "it does not remove itself"},
		{h.Memory > 0 && h.PidsLimit != nil && *h.PidsLimit > 0, "it has no limits"},
	})
}

// checkKeeper adds what is so of a container that has a keeper.
func checkKeeper(h *container.HostConfig) error {
	return firstNot([]fact{
		{len(h.CapAdd) == 0, "it has capabilities"},
		{h.Init != nil && *h.Init, "it has no init"},
	})
}

// fact is what must be so, and what is wrong where it is not.
type fact struct {
	so   bool
	what string
}

// firstNot is the first one that is not so.
func firstNot(facts []fact) error {
	for _, f := range facts {
		if !f.so {
			return errors.New(f.what)
		}
	}
	return nil
}
