package sandbox

// Secret says where the value of the variable Name comes from. Only commands to which a
// rule of their policy grants it get it. It is fetched for each of them, and masked in
// all their output.
type Secret struct {
	Name     string       `json:"name"`
	From     SecretSource `json:"from"`
	Variable string       `json:"variable,omitempty"` // of belljar's own environment; "" is Name
	File     string       `json:"file,omitempty"`     // on belljar's host, absolute
	Command  []string     `json:"command,omitempty"`  // a program on belljar's host, as Summarize.Command, which writes it to stdout
}

// SecretSource is where a secret's value comes from.
type SecretSource string

// The sources. The empty source is invalid.
const (
	SecretEnv     SecretSource = "env"
	SecretFile    SecretSource = "file"
	SecretCommand SecretSource = "command"
)
