package boxlink

import (
	"net"
	"os"
	"syscall"
)

// fileReader reads answers, and the descriptors that come with them.
type fileReader struct {
	conn  *net.UnixConn
	files []*os.File // in the order of the answers that they belong to
}

const (
	// perMessage is how many descriptors come at once, at most.
	perMessage = 3
	// maxFiles is how many may be there without the answer that they belong to.
	maxFiles = 16
)

// lost stands for the files of an answer that this process could not take, as it has too many open.
var lost = new(os.File)

// Read implements io.Reader.
func (r *fileReader) Read(p []byte) (int, error) {
	control := make([]byte, syscall.CmsgSpace(4*perMessage))
	n, size, flags, _, err := r.conn.ReadMsgUnix(p, control)
	if err != nil {
		return max(0, n), err
	}
	messages, err := syscall.ParseSocketControlMessage(control[:size])
	if err != nil {
		return 0, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return 0, errProtocol
		}
		for _, fd := range fds {
			syscall.SetNonblock(fd, true)
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	if flags&syscall.MSG_CTRUNC != 0 { // there is room for as many as are sent
		closeAll(files)
		files = []*os.File{lost}
	}
	if r.files = append(r.files, files...); len(r.files) > maxFiles {
		return 0, errProtocol
	}
	return n, nil
}

// next takes the files of an answer. They may be lost.
func (r *fileReader) next(n int) (files []*os.File, err error) {
	if len(r.files) > 0 && r.files[0] == lost {
		r.files = r.files[1:]
		return nil, syscall.EMFILE
	}
	if n > len(r.files) {
		return nil, errProtocol
	}
	files = r.files[:n:n]
	r.files = r.files[n:]
	return files, nil
}
