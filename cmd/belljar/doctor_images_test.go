package main

import (
	"context"
	"testing"

	"belljar"
	"belljar/config"
	"belljar/sandbox"
)

// placed is an engine of which only is known where its containers are.
type placed struct {
	belljar.Engine
	elsewhere bool
}

func (e placed) Elsewhere() bool { return e.elsewhere }

// stored are images that are there, or can be pulled.
type stored struct {
	belljar.Images
	here, there []string
}

func (s *stored) Resolve(_ context.Context, reference string, pull sandbox.PullPolicy) (sandbox.Image, error) {
	have := s.here
	if pull != sandbox.PullNever {
		have = append(have, s.there...)
	}
	for _, name := range have {
		if name == reference {
			return sandbox.Image{Reference: name, ID: "sha256:1"}, nil
		}
	}
	return sandbox.Image{}, &sandbox.Error{Cause: sandbox.CauseImage, Message: "no registry has " + reference, Hint: "push it"}
}

// Once a bug: in a cluster, the doctor ran no command unless the node that it happened to ask had the image, and found nothing wrong with
// images that no node can pull.
func TestDoctorOfImages(t *testing.T) {
	const missing, never = sandbox.PullMissing, sandbox.PullNever
	for name, c := range map[string]struct {
		elsewhere bool
		image     string
		pull      sandbox.PullPolicy
		want      verdict
		text      string
		noImage   bool
	}{
		"here":               {false, "here", missing, verdictOK, "here is present", false},
		"to be pulled":       {false, "there", missing, verdictWarn, "the first command waits until it is pulled", true},
		"not to be pulled":   {false, "there", never, verdictFail, "no registry has there", true},
		"a node has it":      {true, "here", missing, verdictOK, "here is present", false},
		"a node pulls it":    {true, "there", missing, verdictOK, "there is present", false},
		"it pulls it again":  {true, "there", sandbox.PullAlways, verdictOK, "there is present", false},
		"no node may":        {true, "there", never, verdictFail, "no registry has there", true},
		"no node can":        {true, "nowhere", missing, verdictFail, "no registry has nowhere", true},
		"no node can: a fix": {true, "nowhere", missing, verdictFail, "push it", true},
	} {
		other := sandbox.Profile{Image: "here", Pull: never}
		p := &patient{
			config: &config.Config{Profiles: map[string]sandbox.Profile{sandbox.DefaultProfile: {Image: c.image, Pull: c.pull}, "other": other}},
			host:   &belljar.Host{Engine: placed{elsewhere: c.elsewhere}, Images: &stored{here: []string{"here"}, there: []string{"there"}}},
		}
		wantFinding(t, name, checkImages(t.Context(), p), c.want, c.text)
		if p.noImage != c.noImage {
			t.Errorf("%s: no image: %v", name, p.noImage)
		}
	}
	p := &patient{
		config: &config.Config{Profiles: map[string]sandbox.Profile{sandbox.DefaultProfile: {Image: "there", Pull: missing}, "z": {Image: "there", Pull: never}}},
		host:   &belljar.Host{Engine: placed{}, Images: &stored{there: []string{"there"}}},
	}
	wantFinding(t, "two profiles", checkImages(t.Context(), p), verdictFail, "no registry has there")
}
