package local

import (
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// values are the secrets' values.
func (r *request) values() (list []string) {
	for _, kv := range r.secrets {
		_, value, _ := strings.Cut(kv, "=")
		list = append(list, value)
	}
	return list
}

// line is what a gate reads; see there.
func (r *request) line() (string, bool) {
	most := gate.MaxShort
	if gate.Required(r.command, r.secrets) {
		most = gate.MaxLine
	}
	return gate.Line(withSecrets(r.command, r.secrets), most)
}

// maskResult masks all of the result but the output, once the result is complete:
// processes may have a secret among their arguments.
func (x *execution) maskResult() {
	masks := x.output.masks
	if masks == nil {
		return
	}
	r := &x.result
	r.Masked += x.output.masker.count() + x.output.views.hidden
	hide := func(text *string) {
		hidden, count := masks.Text(*text)
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
	if j := r.Policy; j != nil {
		masked := *j
		hide(&masked.Reason)
		r.Policy = &masked
	}
	for _, text := range []*string{&r.Message, &r.SessionLost, &r.Summary, &r.Evidence.OutputError, &r.Evidence.ListError, &r.Evidence.CollectError, &r.Evidence.RemoveError} {
		hide(text)
	}
	if x.err != nil && x.err.Error() != r.Message {
		r.Error.Message, _ = masks.Text(r.Error.Message)
		r.Error.Hint, _ = masks.Text(r.Error.Hint)
		x.err = r.Error
	}
}

// masked are texts without secrets.
func (x *execution) masked(texts []string) (list []string) {
	for _, text := range texts {
		if x.output.masks != nil {
			text, _ = x.output.masks.Text(text)
		}
		list = append(list, text)
	}
	return list
}
