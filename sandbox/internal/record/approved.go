package record

// Approved is what was answered with AnswerAlways: a program, by a rule of a
// policy, in a place. Neither another program nor another rule is, nor the same
// where a variable, a directory or a mount could make it another.
type Approved struct {
	Policy  string `json:"policy"` // its hash
	Profile string `json:"profile"`
	Rule    string `json:"rule"`
	Program string `json:"program"`
	Context string `json:"beside"` // see Command.beside
}
