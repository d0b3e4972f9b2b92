package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"belljar"
	"belljar/images"
	"belljar/sandbox"
	"belljar/view"
)

func imagesCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List, pull, build, import and remove images",
		Long: `List, pull, build, import and remove the images that commands run in.

With Docker, images are stored in the engine, where docker sees them, too; without,
in belljar's state directory. Images whose names begin with belljar/ are built on this
machine and never pulled. belljar/base, the default, is built when it is first needed.`,
	}
	cmd.AddCommand(imagesListCmd(g), imagesPullCmd(g), imagesBuildCmd(g), imagesImportCmd(g), imagesRemoveCmd(g), imagesPruneCmd(g))
	return cmd
}

func imagesPullCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "pull REF",
		Short: "Pull an image from its registry",
		Long: `Pull an image from its registry, even if an older one is present.

The logins are those of docker login or podman login, if there are any. With Docker, its
engine contacts the registry, and gets the login for it. Without Docker, belljar contacts the
registry itself, and registries on other machines need TLS.`,
		Example: `  belljar images pull python:3.13-slim
  belljar images pull registry.example/tools@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: cobra.ExactArgs(1),
		RunE: withImages(g, func(cmd *cobra.Command, store belljar.Images, args []string) ([]sandbox.Image, error) {
			image, err := store.Pull(cmd.Context(), args[0])
			return []sandbox.Image{image}, err
		}),
	}
}

func imagesBuildCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build an image on this machine, without a registry",
	}
	cmd.AddCommand(imagesBuildBaseCmd(g), imagesBuildDebianCmd(g))
	return cmd
}

func imagesBuildBaseCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "base",
		Short: "Build " + images.Base + " from this machine's busybox",
		Long: `Build ` + images.Base + `, the default image: a static busybox (2 MB), /tmp and
/work. It needs the package busybox-static. Building it again gives the same ID.
Applets that crash are left out, such as wget of Debian 12: for HTTP, build a Debian
image with curl.`,
		Example: `  apt-get install -y busybox-static
  belljar images build base`,
		Args: cobra.NoArgs,
		RunE: withImages(g, func(cmd *cobra.Command, store belljar.Images, _ []string) ([]sandbox.Image, error) {
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
		Long: `Build an image of Debian's required packages and those that you name, from Debian's
archive. This needs root and mmdebstrap or debootstrap, and takes about a minute.`,
		Example: `  belljar images build debian --packages python3,git
  belljar images build debian --suite trixie --packages gcc,make --tag belljar/debian:build
  belljar run --image belljar/debian 'python3 --version'`,
		Args: cobra.NoArgs,
		RunE: withImages(g, func(cmd *cobra.Command, store belljar.Images, _ []string) ([]sandbox.Image, error) {
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

  - an archive of ` + "`docker save`" + `; without --tag, its images keep their names
  - an OCI layout, as a directory or a tar; if it has several platforms, the one
    of this machine
  - a tar of a root file system

A tar may be compressed with gzip or zstd. All but the first need --tag.

belljar reads the whole file before it loads anything. All images of the
file together can unpack to at most 16 GiB, 500,000 files and directories, and 100
times its size: more is refused as a decompression bomb. Device nodes are refused, except those of debootstrap, which
are left out. Setuid and setgid bits, extended attributes such as file
capabilities, and FIFOs are left out, with a notice: such an image gets a different
ID than docker would give it. docker load makes none of these checks.`,
		Example: `  docker save alpine:3 | gzip > alpine.tar.gz && belljar images import alpine.tar.gz
  belljar images import ./oci-layout --tag tools:1
  belljar images import rootfs.tar.zst --tag belljar/custom`,
		Args: cobra.ExactArgs(1),
		RunE: withImages(g, func(cmd *cobra.Command, store belljar.Images, args []string) ([]sandbox.Image, error) {
			return store.Import(cmd.Context(), args[0], tag)
		}),
	}
	cmd.Flags().StringVar(&tag, "tag", "", "name of the image")
	return cmd
}

// withImages runs a command that gets images: progress goes to stderr, and the
// result to stdout, a line of name and ID for each image.
func withImages(g *globals, get func(*cobra.Command, belljar.Images, []string) ([]sandbox.Image, error)) func(*cobra.Command, []string) error {
	return stoppable(func(cmd *cobra.Command, args []string) error {
		host, _, err := g.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer host.Close()
		host.ShowProgress(cmd.ErrOrStderr()) // also where it is no terminal
		got, err := get(cmd, host.Images, args)
		if err != nil {
			return err
		}
		for _, image := range got {
			fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\n", view.SafeLine(image.Reference), image.ID)
		}
		return nil
	})
}
