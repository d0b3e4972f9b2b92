package images

import (
	"context"
	"errors"
	"slices"
	"strings"

	"belljar/internal/lazyregexp"
)

// partOfID matches what may be one, but is no reference of an ID.
var partOfID = lazyregexp.New(`^(sha256:)?[0-9a-f]{4,63}$`)

// Remove removes a name, and the image if it has no other; or an image by its ID, of
// which a part is enough, unless it has several names. An image that a container uses
// stays.
func (d *Disk) Remove(ctx context.Context, name string) (Removed, error) {
	var removed Removed
	err := d.change(ctx, func(all []record) ([]record, error) {
		chosen, err := choice(all, name)
		if err != nil {
			return nil, err
		}
		removed, all, err = d.without(all, chosen)
		return all, err
	})
	if err != nil {
		return Removed{}, err
	}
	return d.clear(ctx, removed)
}

// choice is the records that are removed under a name, of one image.
func choice(all []record, name string) ([]record, error) {
	ref, unclear := parse(name)
	var chosen []record
	if unclear == nil {
		chosen = only(all, func(r record) bool { return r.name == ref.String() })
	}
	if unclear == nil && len(chosen) == 0 {
		chosen = only(all, func(r record) bool { return r.is(ref) })
	}
	if len(chosen) == 0 && partOfID.MatchString(name) {
		chosen = only(all, func(r record) bool { return strings.HasPrefix(r.id.Hex, strings.TrimPrefix(name, "sha256:")) })
	}
	switch {
	case len(chosen) == 0 && unclear != nil:
		return nil, unclear
	case len(chosen) == 0:
		return nil, notPresent(name)
	case slices.ContainsFunc(chosen, func(r record) bool { return r.id != chosen[0].id }):
		return nil, refuse(nil, "write more of the ID", "several images have IDs that begin with %q", name)
	case len(only(chosen, func(r record) bool { return r.name != "" })) > 1:
		return nil, refuse(nil, inUseHint, "image %q has several names", name)
	}
	return chosen, nil
}

func only(all []record, is func(record) bool) []record {
	return slices.DeleteFunc(slices.Clone(all), func(r record) bool { return !is(r) })
}

// Prune removes the images without a name or, if all is set, with one, too, that no
// container uses. A digest that was pulled is a name.
func (d *Disk) Prune(ctx context.Context, all bool) (Removed, error) {
	var removed Removed
	err := d.change(ctx, func(records []record) ([]record, error) {
		chosen := only(records, func(r record) bool { return r.name == "" || all })
		kept := records
		for _, r := range chosen {
			if !slices.ContainsFunc(kept, r.same) {
				continue // another of the image's took it with it
			}
			used, err := d.used(r.id.Hex)
			if err != nil {
				return nil, storing(err)
			}
			if used {
				continue
			}
			var one Removed
			if one, kept, err = d.without(kept, []record{r}); err != nil {
				return nil, err
			}
			removed.Names, removed.IDs = append(removed.Names, one.Names...), append(removed.IDs, one.IDs...)
		}
		return kept, nil
	})
	if err != nil {
		return Removed{}, err
	}
	return d.clear(ctx, removed)
}

// without is the records without the chosen ones, which are of one image, and what that
// removes. The last name of an image takes its records without a name with it.
func (d *Disk) without(all, chosen []record) (Removed, []record, error) {
	var removed Removed
	id := chosen[0].id
	kept := slices.DeleteFunc(slices.Clone(all), func(r record) bool { return slices.ContainsFunc(chosen, r.same) })
	for _, r := range chosen {
		if r.name != "" {
			removed.Names = append(removed.Names, r.shown())
		}
	}
	if len(removed.Names) > 0 && !slices.ContainsFunc(kept, func(r record) bool { return r.id == id && r.name != "" }) {
		kept = slices.DeleteFunc(kept, func(r record) bool { return r.id == id })
	}
	if !slices.ContainsFunc(kept, func(r record) bool { return r.id == id }) {
		used, err := d.used(id.Hex)
		if err != nil {
			return removed, nil, storing(err)
		}
		if used {
			return removed, nil, refuse(nil, inUseHint, "image %q is in use", chosen[0].shown())
		}
		removed.IDs = []string{id.String()}
	}
	slices.Sort(removed.Names)
	return removed, kept, nil
}

func (r record) same(other record) bool {
	return r.name == other.name && r.source == other.source && r.id == other.id
}

// clear removes the files of images that have no record any more. What it cannot
// remove now, a later sweep does.
func (d *Disk) clear(ctx context.Context, removed Removed) (Removed, error) {
	var failed error
	for _, id := range removed.IDs {
		freed, err := d.removeRoot(ctx, strings.TrimPrefix(id, "sha256:"))
		removed.Bytes += freed
		failed = errors.Join(failed, err)
	}
	freed, err := d.sweep(ctx)
	removed.Bytes += freed
	return removed, storing(errors.Join(failed, err))
}
