package main

import (
	"context"
	"errors"
	"fmt"

	"belljar/cmd/internal/replicas"
	"belljar/sandbox/kubernetes"
)

// leases are the Store of replicas.
type leases struct{ of *kubernetes.Shared }

// asStore is an error of a Store.
func asStore(err error) error {
	switch {
	case errors.Is(err, kubernetes.ErrTaken):
		return fmt.Errorf("%w: %w", replicas.ErrTaken, err)
	case errors.Is(err, kubernetes.ErrNone):
		return fmt.Errorf("%w: %w", replicas.ErrNone, err)
	}
	return err
}

func (l leases) List(ctx context.Context, kind string) (all []replicas.Entry, err error) {
	list, err := l.of.List(ctx, kind)
	for _, e := range list {
		all = append(all, replicas.Entry(e))
	}
	return all, asStore(err)
}

func (l leases) Get(ctx context.Context, name string) (replicas.Entry, error) {
	e, err := l.of.Get(ctx, name)
	return replicas.Entry(e), asStore(err)
}

func (l leases) Create(ctx context.Context, e replicas.Entry) (replicas.Entry, error) {
	made, err := l.of.Create(ctx, kubernetes.Entry(e))
	return replicas.Entry(made), asStore(err)
}

func (l leases) Update(ctx context.Context, e replicas.Entry) (replicas.Entry, error) {
	now, err := l.of.Update(ctx, kubernetes.Entry(e))
	return replicas.Entry(now), asStore(err)
}

func (l leases) Delete(ctx context.Context, e replicas.Entry) error {
	return asStore(l.of.Delete(ctx, kubernetes.Entry(e)))
}
