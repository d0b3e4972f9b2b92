package target

import (
	"strings"

	"belljar/sandbox"
)

// maxVolume is the longest name of a volume.
const maxVolume = 253

// Volume reports whether a mount's source is the name of a volume, as Kubernetes has names (an RFC 1123 subdomain), and so
// nothing on any host. No path is one: not "..", nor "a/b".
func Volume(source string) bool {
	for label := range strings.SplitSeq(source, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return len(source) <= maxVolume
}

// CheckNoVolumes refuses volumes for an engine of that name, which has none and would take them for paths.
func CheckNoVolumes(engine string, mounts []sandbox.Mount) error {
	for _, m := range mounts {
		if Volume(m.Source) {
			return sandbox.Invalid("mount a directory, by its whole path; engine.kind kubernetes has volumes", "volume %q: engine %s has no volumes", m.Source, engine)
		}
	}
	return nil
}
