package target

import "belljar/sandbox"

// DirHint says which working directories there are.
const DirHint = "name a directory of the image, /work, /tmp or one in a mount; or create it in the command: mkdir -p DIR && cd DIR"

// NoDirError is of a command whose container has no such working directory, or whose
// user cannot enter it: to the engine both are the same.
func NoDirError(dir string) error {
	return sandbox.Invalid(DirHint, "working directory %q does not exist in the container, or the command's user cannot enter it", dir)
}
