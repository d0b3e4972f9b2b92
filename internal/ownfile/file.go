package ownfile

import (
	"errors"
	"os"
)

// Page is what the kernel writes to a file at once, also where the writer is killed.
const Page = 4096

// Overwrite writes a file over, which is cheaper than to rename a new one. Being
// killed leaves the old text or the new where both fit a Page.
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
