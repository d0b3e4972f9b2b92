package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

const volumeHelp = `Set the sticky bit on directories, for an init container that runs as root without any
capability: see deploy/kubernetes.yaml.

Kubernetes makes an emptyDir writable for everyone. There belljar serve keeps neither its
socket nor its state: another user could replace them. With the sticky bit no one can.`

func volumeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "volume DIR...", Short: "Make volumes safe for belljar serve", Long: volumeHelp, Hidden: true, Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, dirs []string) error {
			for _, dir := range dirs {
				if err := stick(dir); err != nil {
					return fmt.Errorf("setting the sticky bit: %w", err)
				}
			}
			return nil
		},
	}
}

func stick(dir string) error {
	about, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return os.Chmod(dir, about.Mode()|os.ModeSticky)
}
