package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sshServer is a real sshd on the loopback, of the test's own: its key, configuration and
// the one key that it lets in. ssh is found first in PATH, and knows all that.
type sshServer struct{ host, path, dir string }

func startSSH(t *testing.T) sshServer {
	t.Helper()
	needRoot(t, "an sshd of one's own")
	daemon := "/usr/sbin/sshd"
	if _, err := os.Stat(daemon); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("NOT TESTED: this host has no sshd: apt-get install -y openssh-server")
	}
	dir, err := os.MkdirTemp("", "belljar-ssh-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, key := range []string{"host", "user"} {
		tool(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key))
	}
	address := freeAddress(t)
	ip, port, _ := net.SplitHostPort(address)
	hostKey, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"sshd_config": fmt.Sprintf("ListenAddress %[1]s\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\nPidFile none\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nStrictModes no\nMaxStartups 100\nMaxSessions 100\nLogLevel ERROR\n", address, dir),
		"ssh_config":  fmt.Sprintf("IdentityFile %[1]s/user\nIdentitiesOnly yes\nUserKnownHostsFile %[1]s/known\nGlobalKnownHostsFile none\nStrictHostKeyChecking yes\n", dir),
		"known":       fmt.Sprintf("[%s]:%s %s", ip, port, hostKey),
		"bin/ssh":     fmt.Sprintf("#!/bin/sh\nexec /usr/bin/ssh -F %s/ssh_config \"$@\"\n", dir),
	} {
		mode := os.FileMode(0o600)
		if name == "bin/ssh" {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // where sshd separates its privileges
		t.Fatal(err)
	}
	var log strings.Builder
	server := exec.Command(daemon, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	s := sshServer{"ssh://root@" + address, filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), dir}
	t.Cleanup(func() {
		eventually(t, "no ssh is left", func() bool { return s.clients() == "" })
		server.Process.Signal(unix.SIGTERM)
		server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	eventually(t, "sshd listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return s
}

// freeAddress is a port of the loopback that stays free until it is used: no other program
// uses its IP.
func freeAddress(t *testing.T) string {
	t.Helper()
	ip := net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// clients are the ssh processes that use the test's configuration.
func (s sshServer) clients() string {
	out, _ := exec.Command("pgrep", "-a", "-f", "^/usr/bin/ssh -F "+s.dir+"/").Output()
	return string(out)
}

func (s sshServer) use(host string) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		within()(c)
		c.Env = append(c.Env, "PATH="+s.path, "DOCKER_HOST="+host, "XDG_STATE_HOME="+s.dir+"/state")
	}
}

// An engine over SSH is one like others, without mounts, and leaves no process.
func TestSSH(t *testing.T) {
	t.Parallel()
	needDocker(t)
	s := startSSH(t)
	him := s.use(s.host)
	if a := askAs(t, him, "echo out; echo err >&2; exit 3"); a.ExitCode != 3 || a.Stdout != "out\n" || a.Stderr != "err\n" {
		t.Errorf("%s", a.json)
	}
	if a := askAs(t, func(c *exec.Cmd) { him(c); c.Stdin = strings.NewReader(strings.Repeat("in\n", 1<<20)) }, "-i", "cat"); a.StdoutBytes != 3<<20 || a.ExitCode != 0 {
		t.Errorf("%.1000s", a.json)
	}
	if a := askAs(t, him, "--timeout", "8s", "trap '' TERM; echo begun; sleep 1000"); a.Cause != "wall_timeout" || a.Stdout != "begun\n" {
		t.Errorf("%s", a.json)
	}
	if a := askAs(t, him, "-t", "echo hi; exit 4"); a.ExitCode != 4 || a.Stdout != "hi\r\n" {
		t.Errorf("%s", a.json)
	}
	dir, config := shared(t, "rw")
	if a := askAs(t, him, "--config", config, "-v", dir+":/mnt", "true"); a.Cause != "invalid_command" || !strings.Contains(a.Message, "mounts need an engine on this host, but "+s.host+" is on another") {
		t.Errorf("%s", a.json)
	}
	// As engine.host, and as a docker context.
	if a := askAs(t, s.use(""), "--config", configured(t, "engine: {host: '"+s.host+"'}"), "echo hi"); a.Stdout != "hi\n" {
		t.Errorf("%s", a.json)
	}
	docker := filepath.Join(s.dir, "docker")
	create := exec.Command("docker", "context", "create", "far", "--docker", "host="+s.host)
	create.Env = append(os.Environ(), "DOCKER_CONFIG="+docker)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if a := askAs(t, func(c *exec.Cmd) { s.use("")(c); c.Env = append(c.Env, "DOCKER_CONFIG="+docker, "DOCKER_CONTEXT=far") }, "echo hi"); a.Stdout != "hi\n" {
		t.Errorf("%s", a.json)
	}
	session := "ssh-" + filepath.Base(s.dir)
	t.Cleanup(func() { removeSession(session) })
	for _, want := range []string{"1\n", "2\n"} {
		c := exec.Command(binary, "run", "--session", session, "echo >> /work/file; wc -l < /work/file")
		him(c)
		if out, err := c.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%q, %v", out, err)
		}
	}
	remove := exec.Command(binary, "session", "rm", session)
	him(remove)
	if out, err := remove.CombinedOutput(); err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// A belljar that is killed leaves neither its container nor an ssh.
func TestSSHKilled(t *testing.T) {
	t.Parallel()
	needDocker(t)
	s := startSSH(t)
	c := exec.Command(binary, "run", "echo begun; sleep 1000")
	s.use(s.host)(c)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Error(err)
	}
	c.Process.Kill()
	c.Wait()
	eventually(t, "no container is left", func() bool { return owned(c.Process.Pid) == "" })
	eventually(t, "no ssh is left", func() bool { return s.clients() == "" })
}

// A host that does not let belljar in says so, and no question is asked.
func TestSSHRefused(t *testing.T) {
	t.Parallel()
	needDocker(t)
	s := startSSH(t)
	if err := os.Remove(filepath.Join(s.dir, "user")); err != nil {
		t.Fatal(err)
	}
	if a := askAs(t, s.use(s.host), "true"); a.Cause != "engine_error" || !strings.Contains(a.Message, "Permission denied") || !strings.Contains(string(a.json), "ssh must log in without a question") {
		t.Errorf("%s", a.json)
	}
	mark := filepath.Join(s.dir, "mark")
	for _, host := range []string{"ssh://-oProxyCommand=touch${IFS}" + mark, "ssh://x@-oProxyCommand=x", "ssh://$(touch " + mark + ")", "ssh://root@127.0.0.1:22;id"} {
		if a := askAs(t, s.use(host), "true"); a.Cause != "engine_error" || !strings.Contains(a.Message, "invalid engine host") {
			t.Errorf("%q: %s", host, a.json)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("an address ran a command")
	}
}
