package main

import (
	"context"
	"fmt"
	"strings"

	"belljar"
	"belljar/eval/suite"
	"belljar/images"
	"belljar/sandbox"
)

// buildImages has the engine build what tasks need, unless it has it.
func buildImages(ctx context.Context, host *belljar.Host, pull sandbox.PullPolicy, tasks []suite.Task) error {
	for _, b := range suite.Builds(tasks) {
		if _, err := host.Images.Resolve(ctx, b.Image, sandbox.PullNever); err == nil {
			continue
		}
		names := needing(tasks, b.Image)
		store, ok := host.Images.(*images.Store)
		if !ok {
			return sandbox.Invalid("use Docker's engine (BELLJAR_ENGINE_KIND=docker), or build the image, import it and name it as docker_image", "the image of %s must be built from its Dockerfile, which only Docker's engine can do", names)
		}
		d := images.Dockerfile{Tag: b.Image, From: b.From, Files: b.Files, Timeout: b.Timeout, Memory: b.Memory, CPUs: b.CPUs, Network: b.Network}
		if _, err := store.BuildDockerfile(ctx, d, pull); err != nil {
			return fmt.Errorf("%s: %w", names, err)
		}
	}
	return nil
}

// needing names the tasks that need an image to be built.
func needing(tasks []suite.Task, image string) string {
	var names []string
	for _, t := range tasks {
		for _, b := range suite.Builds([]suite.Task{t}) {
			if b.Image == image {
				names = append(names, fmt.Sprintf("%q", t.ID))
			}
		}
	}
	if len(names) == 1 {
		return "task " + names[0]
	}
	return "tasks " + strings.Join(names, ", ")
}
