// Package ownfile is for files and directories that are one user's own: private
// directories, locks that hold across processes, writes that a crash does not
// tear, and the way to a path, looked at link by link.
package ownfile
