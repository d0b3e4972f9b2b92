package local

import (
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
	"belljar/sandbox/internal/mask"
)

// keepSecret has the command's secrets told to its gate and to nobody else.
func (x *execution) keepSecret(secrets []string) {
	if len(secrets) == 0 {
		return
	}
	var values []string
	for _, kv := range secrets {
		_, value, _ := strings.Cut(kv, "=")
		values = append(values, value)
	}
	x.secrets, x.masks = secrets, mask.New(values)
	x.output.masks, x.output.maskers = x.masks, [2]*mask.Stream{mask.NewStream(x.masks), mask.NewStream(x.masks)}
}

// delivery is what a gate is told; see there.
func (x *execution) delivery() (string, bool) {
	most := gate.MaxQuick
	if gate.OnlyByGate(x.command, x.secrets) {
		most = gate.MaxLine
	}
	return gate.Line(withSecrets(x.command, x.secrets), most)
}

// conceal takes the secrets out of what is told beside the output, once it is all
// there: processes may have one among their arguments.
func (x *execution) conceal() {
	if x.masks == nil {
		return
	}
	r := &x.result
	for _, m := range x.output.maskers {
		r.Masked += m.Count
	}
	r.Masked += x.output.hidden
	hide := func(text *string) {
		hidden, count := x.masks.Text(*text)
		*text = hidden
		r.Masked += count
	}
	for _, list := range [][]sandbox.Process{r.Lingering, r.Evidence.Killed} {
		for i := range list {
			hide(&list[i].Command)
		}
	}
	for i := range x.notices {
		hide(&x.notices[i])
	}
	for _, text := range []*string{&r.Message, &r.SessionLost, &r.Summary, &r.Evidence.OutputError, &r.Evidence.ListError, &r.Evidence.RemoveError} {
		hide(text)
	}
	if x.err != nil && x.err.Error() != r.Message {
		r.Error.Message, _ = x.masks.Text(r.Error.Message)
		r.Error.Hint, _ = x.masks.Text(r.Error.Hint)
		x.err = r.Error
	}
}
