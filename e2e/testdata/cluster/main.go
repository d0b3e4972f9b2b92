// Command cluster is a one-node Kubernetes in one program, for tests: etcd, the control plane, the
// kubelet and kubectl, each under its name, and what pretends to be many nodes more. Its modules are in cluster.mod; scripts/cluster starts it.
//
//	cluster kube-apiserver [FLAG...]
package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts are the programs in this one, by their names.
var parts = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"etcd":                    etcd,
	"fake-kubelets":           fakeKubelets,
}

func main() {
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		names := []string{}
		for name := range parts {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: %s %s [FLAG...]\n", filepath.Base(os.Args[0]), strings.Join(names, "|"))
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(parts[os.Args[0]]()))
}

// etcd is one member, on loopback, without fsync: what it keeps need not outlive the test.
func etcd() *cobra.Command {
	cmd := &cobra.Command{Use: "etcd", SilenceUsage: true}
	dir := cmd.Flags().String("data-dir", "", "where it keeps its data")
	clients := cmd.Flags().String("client-url", "http://127.0.0.1:12379", "where clients reach it")
	peers := cmd.Flags().String("peer-url", "http://127.0.0.1:12380", "where other members would")
	cmd.Flags().AddGoFlagSet(flag.CommandLine)
	cmd.RunE = func(*cobra.Command, []string) error {
		config := embed.NewConfig()
		config.Dir, config.UnsafeNoFsync, config.LogLevel = *dir, true, "warn"
		for text, to := range map[string][]*[]url.URL{
			*clients: {&config.ListenClientUrls, &config.AdvertiseClientUrls},
			*peers:   {&config.ListenPeerUrls, &config.AdvertisePeerUrls},
		} {
			u, err := url.Parse(text)
			if err != nil {
				return err
			}
			for _, list := range to {
				*list = []url.URL{*u}
			}
		}
		config.InitialCluster = config.InitialClusterFromName(config.Name)
		member, err := embed.StartEtcd(config)
		if err != nil {
			return err
		}
		defer member.Close()
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		select {
		case <-ctx.Done():
			return nil
		case err := <-member.Err():
			return err
		}
	}
	return cmd
}
