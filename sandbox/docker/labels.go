package docker

import (
	"time"

	"belljar/sandbox"

	"github.com/docker/docker/api/types/filters"
)

// The labels of every container. They hold no part of a command.
const (
	labelManaged  = "dev.belljar.managed"
	labelCommand  = "dev.belljar.command"
	labelHost     = "dev.belljar.host"
	labelProcess  = "dev.belljar.process"
	labelDeadline = "dev.belljar.deadline"
	labelImage    = "dev.belljar.image"
)

func (o owner) labels(spec sandbox.Spec) map[string]string {
	return map[string]string{
		labelManaged:  "true",
		labelCommand:  spec.Command,
		labelHost:     o.host,
		labelProcess:  o.process,
		labelDeadline: spec.Deadline.UTC().Format(time.RFC3339),
		labelImage:    spec.Image.Reference,
	}
}

// managed filters for belljar's containers, and the further labels given.
func managed(more ...string) filters.Args {
	f := filters.NewArgs(filters.Arg("label", labelManaged+"=true"))
	for _, label := range more {
		f.Add("label", label)
	}
	return f
}
