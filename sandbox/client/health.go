package client

import "context"

// Health is nil if the sidecar answers. It needs no token.
func (c *Client) Health(ctx context.Context) error {
	return c.get(ctx, request{path: "/healthz"}, nil)
}

// Ready is nil if the sidecar can run commands now: its engine answers, and containers
// can be made. It needs no token.
func (c *Client) Ready(ctx context.Context) error {
	return c.get(ctx, request{path: "/readyz"}, nil)
}
