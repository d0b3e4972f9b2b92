package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"belljar/sandbox/internal/lockdown"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// profile is a seccomp profile, which all containers of one kind share: it is never changed.
type profile struct {
	*specs.LinuxSeccomp
	digest string // of all that is in it
}

// The two kinds: of containers without a root user and with one.
var (
	plainProfile = sync.OnceValues(func() (profile, error) { return newProfile(initCapabilities, false) })
	rootProfile  = sync.OnceValues(func() (profile, error) { return newProfile(lockdown.RootCapabilities, true) })
)

func profileOf(root bool) (profile, error) {
	if root {
		return rootProfile()
	}
	return plainProfile()
}

func newProfile(capabilities []string, root bool) (profile, error) {
	s, err := lockdown.SeccompFor(capabilities, root)
	if err != nil {
		return profile{}, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return profile{}, fmt.Errorf("encoding the seccomp profile: %w", err)
	}
	return profile{s, fmt.Sprintf("%x", sha256.Sum256(text))}, nil
}

// filterAnnotation gives crun a seccomp filter that is compiled already. Other runtimes
// do not know it: they compile the profile, which is there as well.
const filterAnnotation = "run.oci.seccomp_bpf_data"

const (
	// maxFilter bounds a filter: the kernel takes 4,096 instructions of 8 bytes in one.
	maxFilter = 32 << 10

	// filterPrefix is how the names of files begin that hold a filter. Their sum follows.
	filterPrefix = "seccomp-"
)

// filter has the compiled seccomp profiles, each of which is the same for all containers of its kind.
// To compile one takes crun half of all the time that a container takes, so it is taken from the first
// container, and kept for other processes of this user.
type filter struct {
	dir   string // belljar's own
	mu    sync.Mutex
	known map[filterKey][]byte // nil is none on disk, either
}

// filterKey is what a filter was compiled from, and by what.
type filterKey struct{ runtime, digest string }

// of is a runtime's filter for a profile, nil if there is none yet.
func (f *filter) of(runtime string, p profile) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, looked := f.known[filterKey{runtime, p.digest}]
	if !looked {
		known = f.read(runtime, p)
		f.keep(runtime, p, known)
	}
	return known
}

// keep is called with the lock.
func (f *filter) keep(runtime string, p profile, text []byte) {
	if f.known == nil {
		f.known = map[filterKey][]byte{}
	}
	f.known[filterKey{runtime, p.digest}] = text
}

// file is where the filter of that runtime's program is kept, for that profile, or "".
func (f *filter) file(runtime string, p profile) string {
	about, err := os.Stat(runtime)
	if err != nil || p.digest == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %d", p.digest, runtime, about.Size(), about.ModTime().UnixNano()))
	return filepath.Join(f.dir, fmt.Sprintf("%s%x", filterPrefix, sum[:16]))
}

// read reads a filter that another process kept: its sum and itself.
func (f *filter) read(runtime string, p profile) []byte {
	file, err := os.Open(f.file(runtime, p))
	if err != nil {
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, sha256.Size+maxFilter+1))
	if err != nil || len(text) < sha256.Size {
		return nil
	}
	sum := sha256.Sum256(text[sha256.Size:])
	if !bytes.Equal(sum[:], text[:sha256.Size]) || !isFilter(text[sha256.Size:]) {
		return nil
	}
	return text[sha256.Size:]
}

func isFilter(text []byte) bool { return len(text) > 0 && len(text) <= maxFilter && len(text)%8 == 0 }

// take takes the filter that crun compiled of a container's profile from its state, if it is crun.
func (f *filter) take(runtime, id string, p profile, private *os.File) {
	if f.of(runtime, p) != nil {
		return
	}
	file, err := os.Open(filepath.Join(fdPath(private), stateDir, id, "seccomp.bpf"))
	if err != nil {
		return
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFilter+1))
	if err != nil || !isFilter(text) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(runtime, p, text)
	f.write(runtime, p, text)
}

// write keeps a filter for other processes, and removes those that are out of date. Without it, they
// compile it again.
func (f *filter) write(runtime string, p profile, text []byte) {
	name := f.file(runtime, p)
	old := f.old(runtime)
	fresh, err := os.CreateTemp(f.dir, filterPrefix+"*")
	if err != nil {
		return
	}
	defer os.Remove(fresh.Name())
	sum := sha256.Sum256(text)
	_, err = fresh.Write(append(sum[:], text...))
	if fresh.Close() != nil || err != nil || name == "" || os.Rename(fresh.Name(), name) != nil {
		return
	}
	for _, file := range old {
		os.Remove(file)
	}
}

// old are the files of filters that are of no profile any more, or of another runtime.
func (f *filter) old(runtime string) []string {
	var current []string
	for _, root := range []bool{false, true} {
		p, err := profileOf(root)
		if err != nil {
			return nil
		}
		current = append(current, f.file(runtime, p))
	}
	all, _ := filepath.Glob(filepath.Join(f.dir, filterPrefix+"*"))
	return slices.DeleteFunc(all, func(file string) bool { return slices.Contains(current, file) })
}

// fdPath is a path that leads to an open file, whatever mount namespace that is in.
func fdPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
