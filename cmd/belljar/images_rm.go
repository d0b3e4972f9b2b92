package main

import (
	"context"
	"fmt"
	"io"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"belljar"
	"belljar/images"
	"belljar/sandbox"
	"belljar/view"
)

func imagesRemoveCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm REF...",
		Aliases: []string{"remove"},
		Short:   "Remove images that no container uses",
		Long: `Remove a name, and the image if it has no other name. An ID, or its beginning, removes
an image that has one name at most. An image that a container uses is not removed:
the warm containers of a running belljar serve or mcp use theirs.`,
		Example: `  belljar images rm python:3.13-slim
  belljar images rm 4f1b2c9d8e7a`,
		Args: needImage,
		RunE: stoppable(func(cmd *cobra.Command, args []string) error {
			return withStore(g, cmd, func(store belljar.Images) error {
				return forEach(cmd, args, func(ctx context.Context, name string) error {
					removed, err := store.Remove(ctx, name)
					writeRemoved(cmd.OutOrStdout(), removed)
					return err
				})
			})
		}),
	}
	completeImages(cmd, g)
	return cmd
}

func needImage(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "the image is missing", Hint: "list the images: belljar images ls"}
}

func imagesPruneCmd(g *globals) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove images without a name that no container uses",
		Long: `Remove the images without a name that no container uses: those whose name another
image got, by a pull, a build or an import. With --all, images with a name go, too;
they are built, pulled or imported again when they are needed.

With Docker, the engine's images are those of all its users, and so are those that
this removes.`,
		Example: `  belljar images prune
  belljar images prune --all`,
		Args: cobra.NoArgs,
		RunE: stoppable(func(cmd *cobra.Command, _ []string) error {
			return withStore(g, cmd, func(store belljar.Images) error {
				removed, err := store.Prune(cmd.Context(), all)
				writeRemoved(cmd.OutOrStdout(), removed)
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "freed %s\n", units.HumanSizeWithPrecision(float64(removed.Bytes), 3))
				}
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove images with a name, too")
	return cmd
}

// withStore opens the images of the engine.
func withStore(g *globals, cmd *cobra.Command, use func(belljar.Images) error) error {
	host, _, err := g.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer host.Close()
	return use(host.Images)
}

func writeRemoved(w io.Writer, removed images.Removed) {
	for _, name := range removed.Names {
		fmt.Fprintf(w, "removed name %s\n", view.SafeLine(name))
	}
	for _, id := range removed.IDs {
		fmt.Fprintf(w, "removed image %s\n", view.SafeLine(id))
	}
}
