package suite

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"belljar/sandbox"
)

// Answers are answers that were made elsewhere.
type Answers struct {
	SHA256 string
	of     map[string][]json.RawMessage
	files  map[string][]sandbox.File // relative to the workdir; "" is a text
	wrong  map[string]error          // why what the directory has about a task is no answer
	names  []string                  // in the directory
}

// answerLine is one answer. Its keys are also those that HumanEval's samples have.
type answerLine struct {
	ID     string          `json:"id"`
	Answer json.RawMessage `json:"answer"`
	TaskID string          `json:"task_id"`
	Text   json.RawMessage `json:"completion"`
}

// LoadAnswers reads a file of JSON lines, {"id", "answer"}, of which several may be about one
// task, one for each trial; or a directory with a file or a directory for each task, named
// as the task.
func LoadAnswers(name string, tasks []Task) (*Answers, error) {
	about, err := os.Stat(name)
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "opening the solutions", Err: err, Hint: "name a file of JSON lines or a directory"}
	}
	if about.IsDir() {
		return answersOfDir(name, tasks)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	a := &Answers{SHA256: hex.EncodeToString(sum[:]), of: map[string][]json.RawMessage{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		line := lineText(lines.Bytes(), n)
		if len(line) == 0 {
			continue
		}
		var l answerLine
		if err := StrictJSON(line, &l, false); err != nil {
			return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("reading line %d of %s", n, name), Err: err, Hint: `write {"id": "…", "answer": "…"}`}
		}
		if l.ID == "" {
			l.ID, l.Answer = l.TaskID, l.Text
		}
		if l.ID == "" || len(l.Answer) == 0 {
			return nil, sandbox.Invalid(`write {"id": "…", "answer": "…"}`, "line %d of %s has no id or no answer", n, name)
		}
		a.of[l.ID] = append(a.of[l.ID], l.Answer)
	}
	return a, lineError(name, lines.Err())
}

func answersOfDir(name string, tasks []Task) (*Answers, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	a, sum := &Answers{files: map[string][]sandbox.File{}, wrong: map[string]error{}}, sha256.New()
	for _, entry := range list {
		if !strings.HasPrefix(entry.Name(), ".") {
			a.names = append(a.names, entry.Name())
		}
	}
	for _, t := range tasks {
		if !filepath.IsLocal(t.ID) {
			continue
		}
		about, err := root.Lstat(t.ID)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		list, err := readAnswer(root, t.ID, about)
		if sandbox.CauseOf(err) == sandbox.CauseInvalid { // its own doing, which ends no run of others
			a.wrong[t.ID] = err
			fmt.Fprintf(sum, "%q %q\n", t.ID, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the solution of task %q: %w", t.ID, err)
		}
		a.files[t.ID] = list
		fmt.Fprintf(sum, "%q %s\n", t.ID, digestOf(list))
	}
	a.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return a, nil
}

// readAnswer reads a file, whose path is then "", or a directory.
func readAnswer(root *os.Root, name string, about fs.FileInfo) ([]sandbox.File, error) {
	if !about.IsDir() && !about.Mode().IsRegular() { // WalkDir follows a link that it begins with
		return nil, notRegular(name)
	}
	list, err := readTree(root, name, "")
	if err == nil && !about.IsDir() {
		list[0].Path = ""
	}
	return list, err
}

// Of is the answer to a task, in a trial. Without as many answers as trials there is none.
func (a *Answers) Of(t Task, trial int) (files []sandbox.File, found bool, err error) {
	if list := a.of[t.ID]; trial <= len(list) {
		files, err = t.answer(list[trial-1])
		return files, true, err
	}
	if err := a.wrong[t.ID]; err != nil {
		return nil, true, err
	}
	list, found := a.files[t.ID]
	if !found {
		return nil, false, nil
	}
	for _, f := range list {
		if f.Path == "" {
			files, err = t.textAnswer(string(f.Content))
			return files, true, err
		}
		f.Path = path.Join(t.Workdir, f.Path)
		files = append(files, f)
	}
	return files, true, checkFiles(files)
}

// Unused says which answers no trial takes: those about tasks that the suite does not have, and
// those of a task that has more than there are trials.
func (a *Answers) Unused(tasks []Task, trials int) (notices []string) {
	known := map[string]bool{}
	more := 0
	for _, t := range tasks {
		known[t.ID] = true
		more += max(0, len(a.of[t.ID])-trials)
	}
	var others []string
	for _, id := range slices.Sorted(maps.Keys(a.of)) {
		if !known[id] {
			others = append(others, id)
		}
	}
	isDir := func(name string) bool { // of answers to tasks such as HumanEval/0
		return slices.ContainsFunc(tasks, func(t Task) bool { return strings.HasPrefix(t.ID, name+"/") })
	}
	for _, name := range a.names {
		if !known[name] && !isDir(name) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		notices = append(notices, fmt.Sprintf("answers that are about no task of the suite: %d, such as %.200q", len(others), others[0]))
	}
	if more > 0 {
		notices = append(notices, fmt.Sprintf("answers that are not graded: %d, as there are more about a task than --trials %d", more, trials))
	}
	return notices
}
