package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// lockWait is how long a record waits for the lock. Each holds it for well below a
// millisecond.
const lockWait = 5 * time.Second

// headSize is the size of a head, padded so that a shorter one leaves nothing of a
// longer one: a page is written atomically, also by a process that is killed.
const headSize = 512

// ending is the end of the chain.
type ending struct {
	Seq    uint64 `json:"seq"`
	SHA256 string `json:"sha256"`
	Length int64  `json:"length"` // of the file
	Line   int64  `json:"line"`   // bytes of its last line, with its newline
}

// head is the file that stores the end of the chain, locked.
type head struct {
	ending
	First uint64 `json:"first"` // the oldest record that rotation kept
	Boot  string `json:"boot"`  // the boot id of the machine when it was written

	file *os.File
	log  *os.File // the file of records
}

func headName(file string) string { return file + ".head" }

// lockHead waits for the lock, which is on the head, and reads the head.
func lockHead(file string, deadline time.Time) (*head, error) {
	for {
		f, _, err := openOwn(headName(file), os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		if err := lock(f, syscall.F_WRLCK, file, deadline); err != nil {
			f.Close()
			return nil, err
		}
		if isAt(f, headName(file)) { // it was not renamed in the meantime
			return readHead(file, f)
		}
		f.Close()
	}
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
		err = broken(file, "its head is missing or empty, so belljar cannot tell whether the last records are missing")
	case h.Seq == 0 && exists(rotated(file, 1)):
		err = broken(file, "its head says that there is no record yet, but there are rotated files")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return h, nil
}

// read reads the head. An empty one, not written yet, is unknown, and so is
// one of NULs, which a power cut leaves before the first write reaches the disk.
func (h *head) read() (known bool, err error) {
	h.ending, h.First = ending{SHA256: none}, 1
	text := make([]byte, headSize)
	n, err := h.file.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if len(bytes.Trim(text[:n], "\x00")) == 0 {
		return false, nil
	}
	if err := json.NewDecoder(bytes.NewReader(text[:n])).Decode(h); err != nil {
		return true, err
	}
	if len(h.SHA256) != len(none) || h.Line < 0 || h.Line > maxLine+1 || h.Length < h.Line || (h.Seq == 0) != (h.Line == 0) {
		return true, errors.New("its numbers are impossible")
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
	h.file.Close() // which releases the lock
}

func (h *head) next() place { return place{h.Seq + 1, h.SHA256} }

// rebooted reports whether the machine stopped since the head was written. The
// last writes before may not have reached the disk.
func (h *head) rebooted() bool { return h.Boot != bootID() }

var bootID = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without the file, the machine counts as not stopped
	return strings.TrimSpace(string(text))
})

// isIn reports whether the file's first Length bytes end with that record.
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

func isEmpty(name string) bool {
	about, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist) || err == nil && about.Mode().IsRegular() && about.Size() == 0
}
