package kubernetes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/imagefile"
	"belljar/sandbox/internal/kube"
)

// lookUser is who an init is that looks at an image. It can read what every user can.
var lookUser = sandbox.User{UID: 65534, GID: 65534}

const (
	lookMemory = 64 << 20
	lookTmp    = 1 << 20
	lookTime   = 10 * time.Minute
)

// lookUntil is when a pod that looks at something is to end, whatever becomes of this process: it may take all of engine.kubernetes.start_timeout
// to run.
func (e *Engine) lookUntil() time.Time { return time.Now().Add(e.config.Start + lookTime) }

// policies are Kubernetes' words.
var policies = map[sandbox.PullPolicy]string{sandbox.PullAlways: "Always", sandbox.PullMissing: "IfNotPresent", sandbox.PullNever: "Never"}

// Resolve implements sandbox.Images: by a pod of the image, in which nothing of it runs.
func (e *Engine) Resolve(ctx context.Context, reference string, pull sandbox.PullPolicy) (sandbox.Image, error) {
	if pull == sandbox.PullAlways {
		return e.resolve(ctx, reference, pull)
	}
	if known, ok := e.recall(reference); ok {
		return known, nil
	}
	return shared(ctx, &e.known, "resolve "+string(pull)+" "+reference, func() (sandbox.Image, error) {
		if known, ok := e.recall(reference); ok {
			return known, nil
		}
		return e.resolve(ctx, reference, pull)
	})
}

func (e *Engine) resolve(ctx context.Context, reference string, pull sandbox.PullPolicy) (sandbox.Image, error) {
	image := sandbox.Image{Reference: reference, ID: reference}
	err := e.inImage(ctx, image, policies[pull], func(ctx context.Context, pod *kube.Pod, l *link) error {
		id := statusOf(pod.Status.ContainerStatuses, mainContainer).ImageID
		if image.ID, image.Digest = pinned(reference, id); image.ID == "" {
			return engineError(nil, "image %q: its node calls it %.200q, which is no digest", reference, id).As(sandbox.CauseImage).Hint("push it to a registry, and name it as there")
		}
		texts, err := l.Texts(ctx, "/proc/1/mountinfo")
		if err != nil || texts[0] == "" {
			return engineError(err, "looking at image %q", reference).As(sandbox.CauseImage).Hint("see: belljar doctor")
		}
		image.Volumes = extraMounts(texts[0], []string{"/tmp", "/work"}, nil)
		return nil
	})
	if err != nil {
		return sandbox.Image{}, err
	}
	e.remember(image)
	return image, nil
}

// pinned is what a pod of exactly that image names, by its status' imageID: NAME@DIGEST, or, where no registry knows it, its ID
// on its node. That name may be any that the node has for the image: another repository's would then be asked for it by other nodes.
func pinned(reference, imageID string) (id, digest string) {
	named, digest, isNamed := strings.Cut(imageID, "@")
	if !isNamed {
		return bareID(imageID), bareID(imageID)
	}
	name, own, _ := strings.Cut(reference, "@")
	if own != "" {
		digest = own
	}
	if tag := strings.LastIndex(name, ":"); tag > strings.LastIndex(name, "/") {
		name = name[:tag]
	}
	if own == "" && bareID(reference) != "" { // no repository's
		name = strings.TrimPrefix(named, "docker-pullable://")
	}
	return name + "@" + digest, digest
}

// bareID is an image's ID on its node, "" where that is none. CRI-O leaves out what it begins with.
func bareID(imageID string) string {
	const kind = "sha256:"
	if at := strings.Index(imageID, kind); at >= 0 {
		return imageID[at:]
	}
	if sum, err := hex.DecodeString(imageID); err == nil && len(sum) == sha256.Size {
		return kind + imageID
	}
	return ""
}

// Watch implements sandbox.Images: what a reference was resolved to stays until this process ends, or until no pod of it can be made.
func (e *Engine) Watch(ctx context.Context, changed func(watching bool)) {
	e.known.mu.Lock()
	if e.known.watchers == nil {
		e.known.watchers = map[*func(bool)]bool{}
	}
	e.known.watchers[&changed] = true
	e.known.mu.Unlock()
	changed(true)
	<-ctx.Done()
	e.known.mu.Lock()
	defer e.known.mu.Unlock()
	delete(e.known.watchers, &changed)
}

// inImage calls look with the init of a pod of an image, which is deleted then.
func (e *Engine) inImage(ctx context.Context, image sandbox.Image, pull string, look func(ctx context.Context, pod *kube.Pod, l *link) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	spec := sandbox.Spec{
		Command: "image-" + strings.ToLower(rand.Text()), Image: image, User: lookUser, Network: "none", Deadline: e.lookUntil(),
		Limits: sandbox.Limits{Memory: lookMemory, CPUs: 1, Pids: 32, Tmp: lookTmp, Files: 64},
	}
	lease, err := e.leases.ofProcess(ctx)
	if err != nil {
		return orCanceled(ctx, err)
	}
	pod := e.pod(spec, lease)
	pod.Metadata.Labels[labelKind] = "image"
	if pull != "" {
		pod.Spec.Containers[0].ImagePullPolicy = pull
	}
	made, err := e.make(ctx, pod, spec)
	if err != nil {
		return err
	}
	b := newBox(e, e.record(spec, made))
	b.spec = spec
	var ran *kube.Pod
	if err = e.addedError(pod, made); err == nil {
		ran, err = e.awaitRunning(ctx, made, spec)
	}
	if err == nil {
		var l *link
		if l, err = e.attach(ctx, b.record.Name, b.record.UID); err == nil {
			b.use(l)
			err = look(ctx, ran, l)
		} else {
			err = b.attachError(ctx, err)
		}
	}
	failed := b.abandon()
	if err != nil {
		return orCanceled(ctx, err)
	}
	return failed
}

// Files implements sandbox.Engine.
func (e *Engine) Files(ctx context.Context, image sandbox.Image, names []string, most int64) (files [][]byte, err error) {
	return shared(ctx, &e.known, fmt.Sprintf("files %s %q %d", image.ID, names, most), func() (files [][]byte, err error) {
		if files, ok := e.known.of(image.ID, names); ok {
			return files, nil
		}
		err = e.inImage(ctx, image, "", func(ctx context.Context, _ *kube.Pod, l *link) (err error) {
			files, err = imagefile.Read(image, names, func(name string) ([]byte, error) { return l.ImageFile(ctx, name, most) })
			return err
		})
		if err == nil {
			e.known.keep(image.ID, names, files)
		}
		return files, err
	})
}

// Modes implements sandbox.Engine.
func (e *Engine) Modes(ctx context.Context, image sandbox.Image, names []string) ([]fs.FileMode, error) {
	return shared(ctx, &e.known, fmt.Sprintf("modes %s %q", image.ID, names), func() ([]fs.FileMode, error) { return e.modes(ctx, image, names) })
}

func (e *Engine) modes(ctx context.Context, image sandbox.Image, names []string) (modes []fs.FileMode, err error) {
	err = e.inImage(ctx, image, "", func(ctx context.Context, _ *kube.Pod, l *link) error {
		found, err := l.ImageModes(ctx, names)
		if err != nil {
			return engineError(err, "looking for %q in image %q", names, image.Reference).As(sandbox.CauseImage).Hint("see: belljar doctor")
		}
		modes, err = imagefile.Modes(image, names, func(name string) (fs.FileMode, error) {
			for i := range names {
				if names[i] == name {
					return found[i], nil
				}
			}
			return fs.ModeIrregular, nil
		})
		return err
	})
	return modes, err
}
