package record

// Approved is an approval with AnswerAlways: for a program, by a rule of a
// policy, in a context. It covers neither another program nor another rule, nor the same
// where a variable, a directory or a mount could change the program.
type Approved struct {
	Policy  string `json:"policy"` // its hash
	Profile string `json:"profile"`
	Rule    string `json:"rule"`
	Program string `json:"program"`
	Context string `json:"beside"` // see Command.beside
}
