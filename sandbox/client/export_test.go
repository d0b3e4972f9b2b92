package client

import (
	"context"
	"net"
	"net/http"
)

// Dial has connections made by a test, in its bubble.
func (c *Client) Dial(dial func(context.Context, string, string) (net.Conn, error)) {
	c.http.Transport.(*http.Transport).DialContext = dial
}
