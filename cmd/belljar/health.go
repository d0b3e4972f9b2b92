package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/client"

	"github.com/spf13/cobra"
)

const healthHelp = `Ask the sidecar of this machine, belljar serve, how it is, for the health checks of
Docker, Compose, Kubernetes and systemd. The address is serve.listen of the configuration
that belljar serve reads, too. No token is needed. It cannot ask a server with TLS.

Without --ready it asks whether the sidecar answers at all. If not, restart it.
With --ready it asks whether it takes commands: the engine answers, the sidecar is not
shutting down and, after its start, the pool's first container was made, or there was no
room for it. If not, send no commands for now; to restart the sidecar would not help.

Exit status: 0 yes; 1 no, with the reason on stderr; 125 wrong configuration. An answer
that takes longer than 3 seconds is a no.`

const healthExamples = `  belljar health && echo up
  belljar health --ready
  HEALTHCHECK CMD ["/belljar", "health"]`

const (
	healthTimeout = 3 * time.Second
	exitUnhealthy = 1
)

func healthCmd(g *globals) *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use: "health", Short: "Check whether the sidecar of this machine answers", Long: healthHelp, Example: healthExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := g.loadOwnConfig(nil)
			if err != nil {
				return err
			}
			if c.Serve.TLSCert != "" {
				return usageError{sandbox.Invalid("ask for https://HOST/healthz with a client that has its certificates", "belljar health does not use TLS, and serve.tls_cert is set")}
			}
			sidecar, err := client.New(client.Config{Host: reachable(c.Serve.Listen)})
			if err != nil {
				return err
			}
			defer sidecar.Close()
			return askHealth(cmd, sidecar, ready)
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether commands can run, too")
	return cmd
}

func askHealth(cmd *cobra.Command, sidecar *client.Client, ready bool) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
	defer cancel()
	ask, word := sidecar.Health, "healthy"
	if ready {
		ask, word = sidecar.Ready, "ready"
	}
	if err := ask(ctx); err != nil {
		tellError(cmd.ErrOrStderr(), err)
		return exitError(exitUnhealthy)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), word)
	return err
}

// reachable is an address to connect to, for one to listen on: all addresses are loopback's,
// too.
func reachable(listen string) string {
	address, tcp := strings.CutPrefix(listen, "tcp://")
	host, port, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	if !tcp || err != nil || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return listen
	}
	if ip != nil && ip.To4() == nil {
		return "tcp://" + net.JoinHostPort("::1", port)
	}
	return "tcp://" + net.JoinHostPort("127.0.0.1", port)
}
