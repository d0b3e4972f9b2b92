package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"belljar/images"
	"belljar/sandbox"
	"belljar/view"
)

func imagesCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List, fetch, build and import the images commands run in",
		Long: `List, fetch, build and import the images that commands run in.

Images live in the engine, beside those of docker. Names under belljar/ are
made on this machine and never pulled; belljar/base, the default, is made when
it is first needed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(imagesListCmd(g), imagesPullCmd(g), imagesBuildCmd(g), imagesImportCmd(g))
	return cmd
}

func imagesPullCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "pull REF",
		Short: "Fetch an image from its registry",
		Long: `Fetch an image from its registry, even where an older one is here.

The engine asks the registry without a login. For a private image use
` + "`docker pull`" + `, which takes its own, and then run with --pull missing.`,
		Example: `  belljar images pull python:3.13-slim
  belljar images pull registry.example/tools@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: cobra.ExactArgs(1),
		RunE: withImages(g, func(cmd *cobra.Command, store *images.Store, args []string) ([]sandbox.Image, error) {
			image, err := store.Pull(cmd.Context(), args[0])
			return []sandbox.Image{image}, err
		}),
	}
}

func imagesBuildCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build an image on this machine, without a registry",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(imagesBuildBaseCmd(g), imagesBuildDebianCmd(g))
	return cmd
}

func imagesBuildBaseCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "base",
		Short: "Build " + images.Base + " from this machine's busybox",
		Long: `Build ` + images.Base + `, the default image: a static busybox (2 MB), /tmp and
/work. It takes the package busybox-static. Building it again gives the same ID.
An applet that crashes is left out, such as the wget of Debian 12: for HTTP build a
Debian with curl.`,
		Example: `  apt-get install -y busybox-static
  belljar images build base`,
		Args: cobra.NoArgs,
		RunE: withImages(g, func(cmd *cobra.Command, store *images.Store, _ []string) ([]sandbox.Image, error) {
			image, err := store.BuildBase(cmd.Context())
			return []sandbox.Image{image}, err
		}),
	}
}

func imagesBuildDebianCmd(g *globals) *cobra.Command {
	var debian images.Debian
	cmd := &cobra.Command{
		Use:   "debian",
		Short: "Build a Debian image with the packages you name",
		Long: `Build an image of Debian's required packages and those you name, from Debian's
archive. It takes root, mmdebstrap or debootstrap, and about a minute.`,
		Example: `  belljar images build debian --packages python3,git
  belljar images build debian --suite trixie --packages gcc,make --tag belljar/debian:build
  belljar run --image belljar/debian 'python3 --version'`,
		Args: cobra.NoArgs,
		RunE: withImages(g, func(cmd *cobra.Command, store *images.Store, _ []string) ([]sandbox.Image, error) {
			image, err := store.BuildDebian(cmd.Context(), debian)
			return []sandbox.Image{image}, err
		}),
	}
	cmd.Flags().StringSliceVar(&debian.Packages, "packages", nil, "packages to include, separated by commas")
	cmd.Flags().StringVar(&debian.Suite, "suite", "", `release of Debian (default: this machine's, or "bookworm")`)
	cmd.Flags().StringVar(&debian.Tag, "tag", images.DefaultDebian, "name of the image")
	return cmd
}

func imagesImportCmd(g *globals) *cobra.Command {
	var tag string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Load an image from a file",
		Long: `Load an image from a file or directory:

  - an archive of ` + "`docker save`" + `; its images keep their names without --tag
  - an OCI layout, as a directory or a tar; of several platforms this machine's
  - a tar of a root file system

A tar may be compressed with gzip or zstd. All but the first need --tag.

The file is read through before anything of it is loaded. It may unpack to 16 GiB
and 500,000 members, and to 100 times its size: more is refused as a decompression
bomb. Refused are also device nodes, but for those of debootstrap, which are left
out. Left out, with a notice, are setuid and setgid bits of files, extended
attributes such as file capabilities, and FIFOs: an image that has some gets
another ID than docker would give it. To load what is refused, docker load checks
nothing.`,
		Example: `  docker save alpine:3 | gzip > alpine.tar.gz && belljar images import alpine.tar.gz
  belljar images import ./oci-layout --tag tools:1
  belljar images import rootfs.tar.zst --tag belljar/custom`,
		Args: cobra.ExactArgs(1),
		RunE: withImages(g, func(cmd *cobra.Command, store *images.Store, args []string) ([]sandbox.Image, error) {
			return store.Import(cmd.Context(), args[0], tag)
		}),
	}
	cmd.Flags().StringVar(&tag, "tag", "", "name of the image")
	return cmd
}

// withImages runs a command that gets images: its progress goes to stderr, and
// what it got to stdout, a line of name and ID each.
func withImages(g *globals, get func(*cobra.Command, *images.Store, []string) ([]sandbox.Image, error)) func(*cobra.Command, []string) error {
	return stoppable(func(cmd *cobra.Command, args []string) error {
		store, closeStore, err := g.store(cmd.Context())
		if err != nil {
			return err
		}
		defer closeStore()
		store.Progress = cmd.ErrOrStderr()
		got, err := get(cmd, store, args)
		if err != nil {
			return err
		}
		for _, image := range got {
			fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\n", view.SafeLine(image.Reference), image.ID)
		}
		return nil
	})
}
