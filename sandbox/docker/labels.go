package docker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"belljar/sandbox"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// The labels of every container. Each container has all of them: an image's label would
// fill in for one that is missing. They hold no part of a command, and are not trusted
// without their seal.
const (
	labelManaged  = "dev.belljar.managed"
	labelCommand  = "dev.belljar.command"
	labelHost     = "dev.belljar.host"
	labelProcess  = "dev.belljar.process"
	labelDeadline = "dev.belljar.deadline"
	labelImage    = "dev.belljar.image"
	labelDigest   = "dev.belljar.digest"
	labelPool     = "dev.belljar.pool"    // the profile that it is kept warm for
	labelSession  = "dev.belljar.session" // its name
	labelOwner    = "dev.belljar.owner"   // who owns it: each owner has its own session names
	labelPrint    = "dev.belljar.print"   // sandbox.Spec.Print
	labelUser     = "dev.belljar.user"    // UID:GID of the commands, and the name, if they were asked for by one
	labelRoot     = "dev.belljar.root"    // how root is contained, "" where no command may be root
	labelDisk     = "dev.belljar.disk"    // sandbox.Limits.Disk, "" where the root file system is read-only
	labelSeal     = "dev.belljar.seal"    // see sealer
)

// sealed are the labels under the seal.
var sealed = []string{
	labelManaged, labelCommand, labelHost, labelProcess, labelDeadline, labelImage,
	labelDigest, labelPool, labelSession, labelOwner, labelPrint, labelUser,
}

// sealedIfSet are under the seal as well, but for "": older sessions have none.
var sealedIfSet = []string{labelRoot, labelDisk}

func (e *Engine) labels(spec sandbox.Spec, root string) map[string]string {
	o, disk := e.owner, ""
	if spec.Limits.Disk > 0 {
		disk = strconv.FormatInt(spec.Limits.Disk, 10)
	}
	return map[string]string{
		labelManaged:  "true",
		labelCommand:  spec.Command,
		labelHost:     o.Host,
		labelProcess:  o.Process,
		labelDeadline: spec.Deadline.UTC().Format(time.RFC3339),
		labelImage:    spec.Image.Reference,
		labelDigest:   spec.Image.Digest,
		labelPool:     spec.Pool,
		labelSession:  spec.Session,
		labelOwner:    e.sessionOwner(),
		labelPrint:    spec.Print(),
		labelUser:     userLabel(spec.User),
		labelRoot:     root,
		labelDisk:     disk,
	}
}

func userLabel(u sandbox.User) string { return strings.TrimSpace(u.Numbers() + " " + u.Name) }

func labelledUser(label string) (u sandbox.User) {
	numbers, name, _ := strings.Cut(label, " ")
	fmt.Sscanf(numbers, "%d:%d", &u.UID, &u.GID)
	u.Name = name
	return u
}

// recall takes from a container's labels what its maker knew of it.
func (b *box) recall(about container.InspectResponse) {
	b.keeperUID, b.root = ownUID(about), about.Config.Labels[labelRoot]
	b.spec.Root = b.root != ""
	b.spec.Limits.Disk, _ = strconv.ParseInt(about.Config.Labels[labelDisk], 10, 64)
	b.chooseInspector(about)
}

// managed filters for belljar's containers, and the further labels given.
func managed(more ...string) filters.Args {
	f := filters.NewArgs(filters.Arg("label", labelManaged+"=true"))
	for _, label := range more {
		f.Add("label", label)
	}
	return f
}
