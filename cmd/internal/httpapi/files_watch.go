package httpapi

import (
	"cmp"
	"context"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"time"

	"belljar/sandbox"
)

const (
	watchPause = time.Second
	maxWatched = 10_000 // entries of a directory
)

// change is what happened to an entry of a watched directory.
type change struct {
	Type     string    `json:"type" enum:"created,changed,removed"`
	Path     string    `json:"path" doc:"As the directory's was given, with the entry's name."`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// sendChanges compares lists of a directory until the caller goes.
func (s *Server) sendChanges(r *http.Request, at sandbox.SessionPath, out *download) error {
	ctx := r.Context()
	before, err := s.watched(ctx, at)
	if err != nil {
		return err
	}
	at.Again = true
	out.media = mediaNDJSON
	if out.begin(); r.Method == http.MethodHead {
		return nil
	}
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for sent := time.Now(); ; {
		if err := out.Flush(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now, err := s.watched(ctx, at)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		changes := compare(at.Path, before, now)
		for _, c := range changes {
			if err := out.json(c); err != nil {
				return err
			}
		}
		before = now
		if len(changes) > 0 {
			sent = time.Now()
		} else if time.Since(sent) > heartbeat {
			sent = time.Now()
			if _, err := out.Write([]byte("\n")); err != nil {
				return err
			}
		}
	}
}

func (s *Server) watched(ctx context.Context, at sandbox.SessionPath) (map[string]fs.FileInfo, error) {
	list, err := s.Files.ListFiles(ctx, at)
	if err != nil {
		return nil, err
	}
	if len(list) > maxWatched {
		return nil, sandboxInvalid("watch a directory below it", "%d entries, and at most %d are watched", len(list), maxWatched)
	}
	all := map[string]fs.FileInfo{}
	for _, f := range list {
		all[f.Name()] = f
	}
	return all, nil
}

// compare returns what changed, by name. A container reports whole seconds: what is written
// twice in one and keeps its size does not show.
func compare(dir string, before, now map[string]fs.FileInfo) (list []change) {
	add := func(what string, f fs.FileInfo) {
		list = append(list, change{what, path.Join(dir, f.Name()), f.Size(), f.ModTime()})
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch old, f := before[name], now[name]; {
		case old == nil:
			add("created", f)
		case old.Size() != f.Size() || old.Mode() != f.Mode() || !old.ModTime().Equal(f.ModTime()):
			add("changed", f)
		}
	}
	for name, f := range before {
		if now[name] == nil {
			add("removed", f)
		}
	}
	slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(a.Path, b.Path) })
	return list
}
