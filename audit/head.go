package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"belljar/sandbox"
)

// lockWait is how long a record waits for its turn. Each takes well below a
// millisecond.
const lockWait = 5 * time.Second

// headSize is what a head takes, so that a shorter one leaves nothing of a
// longer: a page is written at once, also by a process that is killed.
const headSize = 512

// ending says where the chain ends.
type ending struct {
	Seq    uint64 `json:"seq"`
	SHA256 string `json:"sha256"`
	Length int64  `json:"length"` // of the file
	Line   int64  `json:"line"`   // bytes of its last line, with its end
}

// head is the file that says where the chain ends, locked.
type head struct {
	ending
	First uint64 `json:"first"` // the oldest record that rotation left
	Boot  string `json:"boot"`  // of the machine, when it was written

	file *os.File
	log  *os.File // the file of records
}

func headName(file string) string { return file + ".head" }

// lockHead waits for the lock, which is on the head, and reads that.
func lockHead(file string, deadline time.Time) (*head, error) {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		f, _, err := openOwn(headName(file), os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		if err = lock(f, syscall.F_WRLCK); err == nil {
			if isAt(f, headName(file)) { // it was not moved away meanwhile
				return readHead(file, f)
			}
		} else if !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EACCES) {
			f.Close()
			return nil, failed(err, "locking the audit file")
		}
		f.Close()
		if time.Now().After(deadline) {
			return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("the audit file %q was in use for %v", file, lockWait),
				Hint: "see by whom: fuser -v " + headName(file)}
		}
		time.Sleep(pause)
	}
}

// ofdSetLock is F_OFD_SETLK (fcntl(2)): a lock of the open file, so that it
// counts among goroutines, too.
const ofdSetLock = 37

func lock(f *os.File, kind int16) error {
	return syscall.FcntlFlock(f.Fd(), ofdSetLock, &syscall.Flock_t{Type: kind})
}

func isAt(f *os.File, name string) bool {
	here, err1 := f.Stat()
	there, err2 := os.Lstat(name)
	return err1 == nil && err2 == nil && os.SameFile(here, there)
}

func readHead(file string, f *os.File) (*head, error) {
	h := &head{file: f}
	known, err := h.read()
	switch {
	case err != nil:
		err = broken(file, "its head cannot be read: %v", err)
	case !known && (exists(rotated(file, 1)) || !isEmpty(file)):
		err = broken(file, "its head is missing")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return h, nil
}

// read reads the head. An empty one, which nobody has written yet, is not known.
func (h *head) read() (known bool, err error) {
	h.ending, h.First = ending{SHA256: none}, 1
	text := make([]byte, headSize)
	n, err := h.file.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if n == 0 {
		return false, nil
	}
	if err := json.NewDecoder(bytes.NewReader(text[:n])).Decode(h); err != nil {
		return true, err
	}
	if len(h.SHA256) != len(none) || h.Line < 0 || h.Line > maxLine+1 || h.Length < h.Line || (h.Seq == 0) != (h.Line == 0) {
		return true, errors.New("its figures make no sense")
	}
	return true, nil
}

func (h *head) write() error {
	h.Boot = bootID()
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	text = append(text, bytes.Repeat([]byte(" "), headSize-len(text)-1)...)
	_, err = h.file.WriteAt(append(text, '\n'), 0)
	return err
}

func (h *head) close() {
	if h.log != nil {
		h.log.Close()
	}
	h.file.Close() // and with it the lock
}

func (h *head) next() place { return place{h.Seq + 1, h.SHA256} }

// rebooted tells whether the machine stopped since the head was written. What
// was written last before may not have reached the disk.
func (h *head) rebooted() bool { return h.Boot != bootID() }

var bootID = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // where there is none, no machine is taken to have stopped
	return strings.TrimSpace(string(text))
})

// isIn tells whether the file's first Length bytes end with that record.
func (e ending) isIn(f io.ReaderAt) bool {
	if e.Seq == 0 {
		return true
	}
	line := make([]byte, e.Line)
	if _, err := f.ReadAt(line, e.Length-e.Line); err != nil {
		return false
	}
	text, ended := bytes.CutSuffix(line, []byte("\n"))
	return ended && digest(text) == e.SHA256
}

// openOwn opens a file that is this user's alone to write.
func openOwn(name string, flags int) (f *os.File, size int64, err error) {
	f, err = os.OpenFile(name, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, 0, unsafe(name, "is a symbolic link", nameAnother)
	case errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE == 0:
		return nil, 0, err
	case err != nil:
		return nil, 0, failed(err, "opening the audit file")
	}
	about, err := f.Stat()
	if err == nil {
		err = checkOwn(name, about)
	}
	if err == nil && !about.Mode().IsRegular() {
		err = unsafe(name, "is not a regular file", nameAnother)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, about.Size(), nil
}

func checkOwn(name string, about fs.FileInfo) error {
	owner, ok := about.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(owner.Uid) != os.Geteuid():
		return unsafe(name, "is not this user's own", nameAnother)
	case about.Mode().Perm()&0o022 != 0:
		return unsafe(name, fmt.Sprintf("can be written by others: its mode is %04o", about.Mode().Perm()), "chmod go-w "+name)
	}
	return nil
}

const nameAnother = "name another: audit.file in sandbox.yaml"

func unsafe(name, what, hint string) error {
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("the audit's %q %s", name, what), Hint: hint}
}

// makeDir makes the directory of the file. Others could replace files in one
// that they may write.
func makeDir(file string) error {
	dir := filepath.Dir(file)
	about, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			about, err = os.Stat(dir)
		}
	}
	if err != nil {
		return failed(err, "making the audit's directory")
	}
	return checkOwn(dir, about)
}

func isEmpty(name string) bool {
	about, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist) || err == nil && about.Mode().IsRegular() && about.Size() == 0
}
