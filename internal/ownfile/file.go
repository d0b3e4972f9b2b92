package ownfile

import (
	"errors"
	"os"
)

// Page is how much the kernel writes to a file atomically, even if the writer is killed.
const Page = 4096

// Overwrite overwrites a file in place, which is cheaper than renaming a new one. A
// killed writer leaves the old text or the new if both fit a Page.
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
