// Package ownfile is for files and directories of one user: private
// directories, locks between processes, writes that a crash does not
// tear, and the resolution of a path, link by link.
package ownfile
