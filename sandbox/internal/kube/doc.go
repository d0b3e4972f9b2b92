// Package kube is a client of the Kubernetes API, for what a sandbox.Engine over pods needs: pods,
// their attachment, and leases.
//
//	access, err := kube.Load("", "")         // as kubectl finds it, or of the pod that this process is in
//	client, err := kube.New(access)
//	var pod kube.Pod
//	err = client.Get(ctx, kube.PodPath("ns", "name"), nil, &pod)
//	var refused *kube.StatusError            // errors.As: what the API server says
//
// # Design
//
// It is not client-go, whose packages take longer to initialise than most of what belljar does with them: a program that only
// imports it (kubernetes, clientcmd, remotecommand; v0.36.3) has 22.7 MB and takes 15 ms of processor to start, one that imports
// net/http and a YAML reader 3.7 MB and 4 ms, and one that imports k8s.io/api's core and coordination next to net/http 8.9 MB and 6 ms. All
// of belljar's programs would pay that, the init of each container excepted. With this package belljar grew by 0.4 MB. What is
// needed of the API are six kinds of requests, stable for years. The types here have the fields that belljar sets and reads; the
// API server checks each object strictly (fieldValidation=Strict), so a field with a wrong name is an error of the first test.
package kube
