// Package binaries provides the real component binaries that a local cluster runs.
//
// Contract: Ensure returns paths to executables that have said their own version; each is made at most once per machine and recipe, however
// many runs ask at the same time, and a build that is killed leaves nothing that looks complete. What a binary is made from is hashed into its
// place in the cache, so a changed recipe, Go release or module version never meets an old binary.
//
// It starts no cluster, and it does not prune entries of other recipes: the cache may be deleted at any time between runs.
package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/versions"
)

// Options says which binaries and where.
type Options struct {
	// Cache is the root of the cache; empty means CacheRoot().
	Cache string
	// Kubernetes is the release, one of kind-configs/versions.yaml; zero means its default.
	Kubernetes versions.Version
	// Components are names such as "kubelet"; none means all of the release.
	Components []string
	// Source makes what is missing; nil means building from Go modules.
	Source Source
	// Out receives progress; nil discards it. On a terminal one line is redrawn each second.
	Out io.Writer
}

// Binary is an executable of the cache.
type Binary struct {
	// Path is absolute.
	Path    string
	Version versions.Version
}

// Paths are binaries by component name.
type Paths map[string]Binary

// Ensure returns the binaries, after making those that are missing or damaged. It may take tens of minutes. Failures to make them are
// *cluster.EnvironmentError; an unknown version or component is a plain error that lists the known ones.
func Ensure(ctx context.Context, o Options) (Paths, error) {
	p, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	paths := Paths{}
	for _, item := range p.items {
		line := p.progress.line(item.component)
		if err := p.cache.ensure(ctx, item, p.source, line); err != nil {
			line.end(map[bool]string{true: "cancelled", false: "failed"}[ctx.Err() != nil])
			op := fmt.Sprintf("provide %s %s", item.component.Name, item.component.Version)
			return nil, explain(ctx, op, p.cache.root, err)
		}
		paths[item.component.Name] = Binary{Path: p.cache.binary(item), Version: item.component.Version}
	}
	return paths, nil
}

// State is what the cache holds of a binary.
type State string

const (
	Cached  State = "cached"
	Missing State = "missing"
	// Damaged entries are made again by Ensure.
	Damaged State = "damaged"
)

// Status is one binary of a release, present or not.
type Status struct {
	Component Component
	State     State
	// Size is in bytes; 0 unless cached.
	Size int64
	// Path is where the binary is or would be.
	Path string
	// Detail says what is wrong with a damaged entry.
	Detail string
}

// List tells the state of each binary without changing anything. Sizes are compared, contents are not: see Verify.
func List(ctx context.Context, o Options) ([]Status, error) { return survey(ctx, o, false) }

// Verify is List with the SHA-256 of each binary recomputed. Damaged entries are removed, so that the next Ensure makes them again.
func Verify(ctx context.Context, o Options) ([]Status, error) { return survey(ctx, o, true) }

func survey(ctx context.Context, o Options, deep bool) ([]Status, error) {
	p, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	var all []Status
	for _, item := range p.items {
		s := Status{Component: item.component, State: Cached, Path: p.cache.binary(item)}
		meta, err := p.cache.check(item, deep)
		switch {
		case err == nil:
			s.Size = meta.Size
		case isMissing(err):
			s.State = Missing
		default:
			s.State, s.Detail = Damaged, err.Error()
			if deep {
				if err := p.cache.discard(ctx, item); err != nil {
					return nil, explain(ctx, "remove damaged "+item.key, p.cache.root, err)
				}
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// CacheKey names the content of the cache that Ensure with the same options leaves: equal keys, equal recipes. It is made for CI caches of
// CacheRoot(), and is stable across machines with the same platform and Go release.
func CacheKey(ctx context.Context, o Options) (string, error) {
	p, err := prepare(ctx, o)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, item := range p.items {
		fmt.Fprintln(sum, item.key)
	}
	return fmt.Sprintf("headroom-binaries-%s-%s-%s-%s", p.release.Version, runtime.GOOS, runtime.GOARCH, hex.EncodeToString(sum.Sum(nil))[:keyDigits]), nil
}

// prepared is Options with every default filled in.
type prepared struct {
	release  versions.Release
	cache    cache
	source   Source
	progress *progress
	items    []item
}

// item is a component together with its place in the cache.
type item struct {
	component Component
	inputs    []string
	key       string
}

func prepare(ctx context.Context, o Options) (*prepared, error) {
	p := &prepared{release: versions.Default(), source: o.Source}
	if o.Kubernetes != "" {
		var err error
		if p.release, err = versions.Lookup(o.Kubernetes); err != nil {
			return nil, err
		}
	}
	set, err := Select(p.release, o.Components)
	if err != nil {
		return nil, err
	}
	root, err := CacheRoot()
	if o.Cache != "" {
		root, err = filepath.Abs(o.Cache)
	}
	if err != nil {
		return nil, cluster.Environment("find the cache of binaries", err)
	}
	p.cache = open(root)
	if p.source == nil {
		p.source = &Build{}
	}
	out := o.Out
	if out == nil {
		out = io.Discard
	}
	p.progress = newProgress(out, set)
	for _, c := range set {
		inputs, err := p.source.Inputs(ctx, c)
		if err != nil {
			return nil, explain(ctx, fmt.Sprintf("plan %s %s", c.Name, c.Version), root, err)
		}
		p.items = append(p.items, item{component: c, inputs: inputs, key: key(c, inputs)})
	}
	return p, nil
}
