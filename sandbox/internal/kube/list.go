package kube

import (
	"context"
	"maps"
	"net/url"
	"strconv"
	"time"
)

const (
	// pageSize is how many objects an answer has: all of a large namespace are more than one may have.
	pageSize = 500
	// pageTimeout is for one of them.
	pageTimeout = 10 * time.Second
)

// List reads all objects of a path, as they were when it began.
func List[T any](ctx context.Context, c *Client, path string, query url.Values) (all []T, err error) {
	query = maps.Clone(query)
	query.Set("limit", strconv.Itoa(pageSize))
	for {
		var page struct {
			Metadata struct{ Continue string }
			Items    []T
		}
		ctx, cancel := context.WithTimeout(ctx, pageTimeout)
		err := c.Get(ctx, path, query, &page)
		cancel()
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}
