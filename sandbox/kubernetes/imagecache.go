package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar/sandbox"
)

// images are those that were resolved, by their references, and their files.
type images struct {
	mu       sync.Mutex
	resolved map[string]sandbox.Image
	files    map[[2]string][]byte // by image and name
	looking  map[string]*look     // at images now, by what for
	watchers map[*func(watching bool)]bool
}

// look is a look at an image, by a pod. Its result is set before it is over.
type look struct {
	over   chan struct{}
	result any
	err    error
	gaveUp bool // who looked
}

// shared has one of those who want to know the same of an image at once find it out by do, and all others wait for that. Else a
// thousand commands at once would make a thousand pods before the first of them runs. Where who looks gives up, another one does it.
func shared[T any](ctx context.Context, i *images, what string, do func() (T, error)) (result T, err error) {
	for {
		i.mu.Lock()
		others := i.looking[what]
		if others == nil {
			break
		}
		i.mu.Unlock()
		select {
		case <-others.over:
		case <-ctx.Done():
			return result, ctx.Err()
		}
		if !others.gaveUp {
			result, _ = others.result.(T)
			return result, others.err
		}
	}
	own := &look{over: make(chan struct{})}
	if i.looking == nil {
		i.looking = map[string]*look{}
	}
	i.looking[what] = own
	i.mu.Unlock()
	result, err = do()
	own.result, own.err, own.gaveUp = result, err, ctx.Err() != nil
	i.mu.Lock()
	delete(i.looking, what)
	i.mu.Unlock()
	close(own.over)
	return result, err
}

// imageFor is how long belljar's other processes take an image as it was resolved. Nodes do, too, as long as they have it.
const imageFor = 10 * time.Minute

// remembered is an image in a file.
type remembered struct {
	Server, Reference string
	Image             sandbox.Image
	At                time.Time
}

func (e *Engine) imageFile(reference string) string {
	sum := sha256.Sum256([]byte(e.Host() + "\n" + reference))
	return filepath.Join(e.dir, "image-"+hex.EncodeToString(sum[:16])) // none of a session's record
}

// recall is what a reference was resolved to before, by this process, or by another a while ago.
func (e *Engine) recall(reference string) (sandbox.Image, bool) {
	e.known.mu.Lock()
	defer e.known.mu.Unlock()
	if i, known := e.known.resolved[reference]; known {
		return i, true
	}
	if e.dir == "" {
		return sandbox.Image{}, false
	}
	var r remembered
	text, err := os.ReadFile(e.imageFile(reference))
	if err != nil || json.Unmarshal(text, &r) != nil || r.Server != e.Host() || r.Reference != reference || r.Image.ID == "" || time.Since(r.At) > imageFor || time.Until(r.At) > 0 {
		return sandbox.Image{}, false
	}
	e.rememberLocked(r.Image)
	return r.Image, true
}

func (e *Engine) rememberLocked(i sandbox.Image) {
	if e.known.resolved == nil {
		e.known.resolved = map[string]sandbox.Image{}
	}
	e.known.resolved[i.Reference] = i
}

// remember keeps what a reference was resolved to.
func (e *Engine) remember(i sandbox.Image) {
	e.known.mu.Lock()
	defer e.known.mu.Unlock()
	e.rememberLocked(i)
	if text, err := json.Marshal(remembered{e.Host(), i.Reference, i, time.Now()}); e.dir != "" && err == nil {
		e.removeOld()
		writeFile(e.dir, e.imageFile(i.Reference), text) // else it is resolved once more
	}
}

// removeOld removes what no process takes any more, and what one left that was killed while it wrote.
func (e *Engine) removeOld() {
	entries, _ := os.ReadDir(e.dir) // the next time may do
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, "image-") || strings.HasPrefix(name, freshPrefix) {
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > imageFor {
				os.Remove(filepath.Join(e.dir, name))
			}
		}
	}
}

// forget drops an image that no node has any more, here and where others keep it, who may ask for it at once.
func (e *Engine) forget(i sandbox.Image) {
	e.forgetOwn(i)
	e.known.mu.Lock()
	watchers := slices.Collect(maps.Keys(e.known.watchers))
	e.known.mu.Unlock()
	for _, changed := range watchers {
		(*changed)(true)
	}
}

func (e *Engine) forgetOwn(i sandbox.Image) {
	e.known.mu.Lock()
	defer e.known.mu.Unlock()
	if e.known.resolved[i.Reference].ID == i.ID {
		delete(e.known.resolved, i.Reference)
	}
	if e.dir != "" {
		os.Remove(e.imageFile(i.Reference))
	}
}

// maxKept bounds how many files are kept.
const maxKept = 256

func (i *images) of(id string, names []string) (files [][]byte, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, name := range names {
		text, known := i.files[[2]string{id, name}]
		if !known {
			return nil, false
		}
		files = append(files, text)
	}
	return files, true
}

func (i *images) keep(id string, names []string, files [][]byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.files == nil || len(i.files) > maxKept {
		i.files = map[[2]string][]byte{}
	}
	for n, name := range names {
		i.files[[2]string{id, name}] = files[n]
	}
}
