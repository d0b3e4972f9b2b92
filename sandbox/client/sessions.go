package client

import (
	"context"
	"net/http"
	"net/url"

	"belljar/internal/names"
	"belljar/sandbox"
)

// Sessions implements sandbox.Sessions.
func (c *Client) Sessions(ctx context.Context) ([]sandbox.SessionInfo, error) {
	var all struct {
		Sessions []sandbox.SessionInfo `json:"sessions"`
	}
	err := c.get(ctx, request{path: "/v1/sessions"}, &all)
	return all.Sessions, err
}

// RemoveSession implements sandbox.Sessions.
func (c *Client) RemoveSession(ctx context.Context, name string) error {
	if err := names.CheckSession(name); err != nil {
		return err
	}
	return c.get(ctx, request{method: http.MethodDelete, path: "/v1/sessions/" + url.PathEscape(name)}, nil)
}

// Pools implements sandbox.Pools, for a caller with the scope admin.
func (c *Client) Pools(ctx context.Context) ([]sandbox.PoolStatus, error) {
	var all struct {
		Pools []sandbox.PoolStatus `json:"pools"`
	}
	err := c.get(ctx, request{path: "/v1/pools"}, &all)
	return all.Pools, err
}
