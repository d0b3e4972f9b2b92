package images

import (
	"bytes"
	"encoding/json"
	"io"

	"belljar/view"

	"github.com/docker/docker/pkg/jsonmessage"
)

// safeMessages are an engine's messages, in whose texts are also those of an image's or a
// registry's. The bars that they become have control characters, so that these cannot be
// replaced later.
func safeMessages(stream io.Reader) io.Reader {
	var ready bytes.Buffer
	in, out := json.NewDecoder(stream), json.NewEncoder(&ready)
	return readerFunc(func(p []byte) (int, error) {
		for ready.Len() == 0 {
			var m jsonmessage.JSONMessage
			if err := in.Decode(&m); err != nil {
				return 0, err
			}
			for _, text := range []*string{&m.Stream, &m.Status, &m.ProgressMessage, &m.ID, &m.From} { //nolint:staticcheck // engines send it, and it is shown
				*text = view.Safe(*text)
			}
			if m.Progress != nil {
				m.Progress.Units = view.SafeLine(m.Progress.Units)
			}
			if err := out.Encode(m); err != nil {
				return 0, err
			}
		}
		return ready.Read(p)
	})
}
