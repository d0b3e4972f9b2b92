package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"belljar/images"
	"belljar/sandbox"
)

// wanted is an image of a profile.
type wanted struct {
	reference string
	pull      sandbox.PullPolicy
}

// checkImages looks for the profiles' images.
func checkImages(ctx context.Context, p *patient) finding {
	var all []finding
	seen := map[wanted]error{}
	for _, name := range slices.Sorted(maps.Keys(p.config.Profiles)) {
		image := wanted{p.config.Profiles[name].Image, p.config.Profiles[name].Pull}
		if _, known := seen[image]; !known {
			var found finding
			found, seen[image] = p.checkImage(ctx, image)
			all = append(all, found)
		}
		if name == sandbox.DefaultProfile {
			p.noImage = seen[image] != nil
		}
	}
	return together(all...)
}

// elsewhere reports whether other machines make the containers. An image that one of them has, others may have to pull: that is their
// normal work.
func (p *patient) elsewhere() bool {
	engine, says := p.host.Engine.(interface{ Elsewhere() bool })
	return says && engine.Elsewhere()
}

// pull is when the doctor has an image pulled. On this machine it pulls nothing: the download is for the first command.
func (p *patient) pull(policy sandbox.PullPolicy) sandbox.PullPolicy {
	if p.elsewhere() {
		return policy
	}
	return sandbox.PullNever
}

// checkImage returns an error, too, if the image is not there. The base image is built if it is missing, as
// the first command would.
func (p *patient) checkImage(ctx context.Context, of wanted) (finding, error) {
	store := p.host.Images
	image, err := store.Resolve(ctx, of.reference, p.pull(of.pull))
	if err == nil {
		return ok("%s is present: %s", of.reference, short(image.ID)), nil
	}
	missing := p.problem(err)
	if p.elsewhere() || of.pull == sandbox.PullNever || sandbox.CauseOf(err) != sandbox.CauseImage {
		return missing, err
	}
	if of.reference+":latest" == images.Base || of.reference == images.Base {
		image, err = store.Resolve(ctx, of.reference, sandbox.PullMissing)
		if err != nil {
			return p.problem(err), err
		}
		return ok("%s was missing, and was built: %s", of.reference, short(image.ID)), nil
	}
	if strings.HasPrefix(of.reference, "belljar/") {
		return missing, err // no registry has it
	}
	return warn(missing.Fix, "image %q is not present: the first command waits until it is pulled", of.reference), err
}
