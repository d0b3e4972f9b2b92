package docker_test

import (
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/docker"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestNetworkNone: a command without a network has localhost all the same, by
// address and by name, whether the engine makes the network namespace or, which
// is quicker, the runtime.
func TestNetworkNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		image func(*testing.T, *docker.Engine) sandbox.Image
		quick bool
	}{
		"base":                  {baseImage, true},
		"other":                 {func(t *testing.T, e *docker.Engine) sandbox.Image { return loadImage(t, e, nastyTree(t), v1.Config{}) }, true},
		"no place for the file": {baseImage, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := connect(t)
			if !test.quick {
				engine.Dir = "/proc/nowhere"
			}
			c := enter(t, engine, test.image(t, engine))
			about, err := engine.Client().ContainerInspect(t.Context(), c.box.Info().ID)
			if err != nil {
				t.Fatal(err)
			}
			if about.Config.NetworkDisabled != test.quick || about.HostConfig.NetworkMode != "none" {
				t.Errorf("network disabled: %v, mode %s", about.Config.NetworkDisabled, about.HostConfig.NetworkMode)
			}
			c.wants(t,
				// nc says the address that it found for a name, or that it found none.
				check{"nc -w 5 localhost 1", `nc: can't connect to remote host \((127\.0\.0\.1|::1)\): Connection refused`},
				check{"nc -w 5 localhost.x 1", `nc: bad address 'localhost\.x'`},
				check{"nc -w 5 127.0.0.1 1", ".*Connection refused"}, // by lo, which is up
				check{"sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo"},
				check{"ls /sys/class/net", "lo"},
				check{"sed 1d /proc/net/route; grep -v ' lo$' /proc/net/ipv6_route 2>/dev/null", ""},
				check{"nc -w 5 169.254.169.254 80", ".*Network is unreachable"},
				check{"nc -w 5 fd00:ec2::254 80", ".*(Network is unreachable|Cannot assign requested address|Address family not supported).*"},
			)
			c.wantsOwnNamespaces(t)
		})
	}
}
