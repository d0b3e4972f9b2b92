package sandbox

// Secret says where a value comes from that commands get as the variable Name:
// those to which a rule of their policy grants it, and no others. It is fetched
// for each of them, and taken out of all that they write.
type Secret struct {
	Name     string       `json:"name"`
	From     SecretSource `json:"from"`
	Variable string       `json:"variable,omitempty"` // of belljar's own environment; "" is Name
	File     string       `json:"file,omitempty"`     // on belljar's host, absolute
	Command  []string     `json:"command,omitempty"`  // a program on belljar's host, as Summarize.Command, which writes it to stdout
}

// SecretSource is where a secret's value comes from.
type SecretSource string

// The sources. The empty source is none.
const (
	SecretEnv     SecretSource = "env"
	SecretFile    SecretSource = "file"
	SecretCommand SecretSource = "command"
)
