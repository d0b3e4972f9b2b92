package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"belljar/eval/run"
	"belljar/sandbox"
	"belljar/view"
)

// The elements of JUnit XML that GitLab, Jenkins and GitHub's actions read. There is no
// standard: what is used here is in all of Ant's, Surefire's and Jenkins' schemas.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"` // without a zone: the schemas do not allow one. It is UTC
		Hostname   string          `xml:"hostname,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name      string    `xml:"name,attr"`
		Classname string    `xml:"classname,attr"`
		Time      string    `xml:"time,attr"`
		Skipped   *junitEnd `xml:"skipped"`
		Error     *junitEnd `xml:"error"`
		Failure   *junitEnd `xml:"failure"`
		Out       string    `xml:"system-out,omitempty"`
		Err       string    `xml:"system-err,omitempty"`
	}
	junitEnd struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// The bounds of what a testcase has of each output of a command, and of what all testcases
// have of it and of facts: GitLab takes files of 30 MB.
const (
	maxJUnitTail = 4 << 10
	maxJUnitAll  = 16 << 20
)

// JUnit writes the run as JUnit XML: a testcase for each trial, also for those that have not
// ended, so that an incomplete run does not look like a small one.
func (r *Report) JUnit(w io.Writer) error {
	suite := junitSuite{
		Name: "belljar eval", Timestamp: r.Run.Started.UTC().Format("2006-01-02T15:04:05"), Hostname: "localhost",
		Properties: []junitProperty{
			{"run", oneLine(r.Run.ID, maxFact)}, {"belljar", oneLine(r.Run.Belljar, maxFact)}, {"agent", oneLine(string(r.Run.Agent.Kind), maxFact)},
			{"suite", oneLine(r.Run.Suite.SHA256, maxFact)}, {"result", r.Summary.String()}, {"controls", strconv.FormatBool(r.Run.Options.Controls)},
		},
	}
	millis, left := 0.0, maxJUnitAll
	for _, task := range r.Tasks {
		trials := map[int]run.Result{}
		for _, trial := range task.Trials {
			trials[trial.Trial] = trial
		}
		for n := 1; n <= r.Run.Trials; n++ {
			trial, ended := trials[n]
			c := junitCase{Name: caseName(task, trial, n, r.Run.Trials), Classname: oneLine(task.ID, 300), Time: seconds(trial.Millis)}
			if ended {
				c.end(trial, &left)
			} else {
				c.Skipped = &junitEnd{Message: "it has not ended", Type: "missing"}
			}
			suite.add(c)
			millis += trial.Millis
		}
	}
	suite.Time = seconds(millis)
	all := junitSuites{Name: suite.Name, Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Time: suite.Time, Suites: []junitSuite{suite}}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (s *junitSuite) add(c junitCase) {
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

// caseName is the same in each run of a suite, so that CI can compare them, except that
// a score that can have been faked says so.
func caseName(task Task, trial run.Result, n, trials int) string {
	name := oneLine(task.ID, 300)
	if trials > 1 {
		name += fmt.Sprintf(" (trial %d)", n)
	}
	if !task.Sealed || trial.Verdict == run.Passed && !trial.Sealed {
		name += " (unsealed)"
	}
	return name
}

// end says how the trial ended. Only the verdict passed has neither failure, error nor
// skipped.
func (c *junitCase) end(trial run.Result, left *int) {
	of := &junitEnd{Message: cmp.Or(oneLine(reason(trial), 500), string(trial.Verdict)), Type: oneLine(label(trial), 60), Text: strings.Join(facts(trial), "\n")}
	if !take(left, of.Text) {
		of.Text = ""
	}
	switch trial.Verdict {
	case run.Passed:
		return // its output is in the logs
	case run.Skipped:
		c.Skipped = of
		return
	case run.Error:
		c.Error = of
	default:
		c.Failure = of
	}
	c.Out, c.Err = tails(trial, left)
}

// tails are the ends of what the phase that decided wrote.
func tails(trial run.Result, left *int) (out, err string) {
	p := decided(trial)
	if p == nil {
		return "", ""
	}
	if *left > 0 {
		out, err = tail(p.Stdout, maxJUnitTail), tail(p.Stderr, maxJUnitTail)
	}
	if !take(left, out+err) || *left == 0 {
		return fmt.Sprintf("left out: there is %s of output before it; see %s", sandbox.FormatSize(maxJUnitAll), oneLine(p.Stdout.Log, 500)), ""
	}
	return out, err
}

// decided is the phase that decided about a trial, or its last one, or nil.
func decided(trial run.Result) *run.Phase {
	for i := len(trial.Phases) - 1; i >= 0; i-- {
		if trial.Phases[i].Name == trial.Phase || trial.Phase == "" {
			return &trial.Phases[i]
		}
	}
	return nil
}

// tail is the end of an output, from a whole character on.
func tail(o run.Output, most int) string {
	text := o.Tail
	if cut := len(text) - most; cut > 0 {
		for cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut++
		}
		text = "…" + text[cut:]
	}
	return safeText(text)
}

// take takes a text's length, once it is escaped, from what is left of a file's size. The
// first that is too long leaves nothing.
func take(left *int, text string) bool {
	size := len(text)
	for i := range len(text) {
		switch text[i] {
		case '<', '>', '&', '"', '\'', '\n', '\t':
			size += 5
		}
	}
	if size > *left {
		*left = 0
		return false
	}
	*left -= size
	return true
}

// safeText is text that a person can be shown, and that XML allows: it has no characters for
// U+0000 to U+001F, U+FFFE and the like, not even escaped.
func safeText(text string) string { return strings.ReplaceAll(view.Safe(text), "\r", "") }

// clip is the beginning of a text.
func clip(text string, most int) string {
	n := 0
	for at := range text {
		if n++; n > most {
			return text[:at] + "…"
		}
	}
	return text
}

func seconds(millis float64) string { return fmt.Sprintf("%.3f", millis/1000) }
