package images

import (
	"context"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// watchAgain is how long Watch waits after an engine ended its events.
const watchAgain = time.Second

// Watch implements sandbox.Images, by the engine's events.
func (s *Store) Watch(ctx context.Context, changed func(watching bool)) {
	for ctx.Err() == nil {
		// The engine starts to send events after its answer: earlier ones are
		// requested by their time.
		since := strconv.FormatInt(time.Now().Unix(), 10)
		messages, errs := s.Client.Events(ctx, events.ListOptions{Since: since, Filters: filters.NewArgs(filters.Arg("type", string(events.ImageEventType)))})
		changed(true)
		for watching := true; watching; {
			select {
			case <-messages:
				changed(true)
			case <-errs:
				changed(false)
				watching = false
			}
		}
		select {
		case <-time.After(watchAgain):
		case <-ctx.Done():
		}
	}
}
