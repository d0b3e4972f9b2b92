package ownfile

import (
	"errors"
	"os"
)

// Page is what the kernel writes to a file at once, also where we are killed.
const Page = 4096

func Overwrite(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(text); err == nil {
		err = file.Truncate(int64(len(text)))
	}
	return errors.Join(err, file.Close())
}

// SetLock is F_OFD_SETLK (fcntl(2)): a lock of the open file, so that it
// counts among goroutines, too.
const SetLock = 37

// GetLock is F_OFD_GETLK (fcntl(2)).
const GetLock = 36
