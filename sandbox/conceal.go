package sandbox

import "strings"

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
	x.secrets, x.masks = secrets, newMasks(values)
	x.output.masks, x.output.maskers = x.masks, [2]*masker{newMasker(x.masks), newMasker(x.masks)}
}

// delivery is what a gate is told; see there.
func (x *execution) delivery() (string, bool) {
	most := maxDelivery
	if x.command.onlyByGate(x.secrets) {
		most = mostDelivery
	}
	return delivery(x.command.withSecrets(x.secrets), most)
}

// conceal takes the secrets out of what is told beside the output, once it is all
// there: processes may have one among their arguments.
func (x *execution) conceal() {
	if x.masks == nil {
		return
	}
	r := &x.result
	for _, m := range x.output.maskers {
		r.Masked += m.count
	}
	r.Masked += x.output.hidden
	hide := func(text *string) {
		hidden, count := x.masks.text(*text)
		*text = hidden
		r.Masked += count
	}
	for _, list := range [][]Process{r.Lingering, r.Evidence.Killed} {
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
		x.err = &Error{Cause: r.Cause, Message: r.Message}
	}
}
