// Package binaries provides the real component binaries that a local cluster runs.
//
// Contract: Ensure returns paths to executables that have said their own version; each is copied, downloaded or built at most once per machine and
// recipe, however many runs ask at the same time, and a process that is killed leaves nothing that looks complete. What a binary is made from is hashed
// into its place in the cache, so a changed recipe, Go release, module version or site never meets an old binary. What is copied or downloaded is used
// only where its SHA-256 is the one that its publisher names.
//
// It starts no cluster, and it does not prune entries of other recipes: the cache may be deleted at any time between runs.
package binaries

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	// Attacher is a release of external-attacher other than the one that goes with Kubernetes, one of kind-configs/versions.yaml.
	Attacher versions.Version
	// Provisioner is a release of external-provisioner other than the newest, one of kind-configs/versions.yaml.
	Provisioner versions.Version
	// Components are names such as "kubelet"; none means all of the release.
	Components []string
	// From says where what is missing comes from.
	From Origin
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

// Ensure returns the binaries, after making those that are missing or damaged. A build may take tens of minutes. What no source that may be asked has is a
// *cluster.InputError; other failures to make them are *cluster.EnvironmentError; an unknown version, component or origin is a plain error that lists the
// known ones.
func Ensure(ctx context.Context, o Options) (Paths, error) {
	p, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	paths := Paths{}
	for _, choices := range p.choices {
		c := choices.component
		line := p.progress.line(c)
		found, err := p.provide(ctx, choices, line)
		if err != nil {
			line.end(map[bool]string{true: "cancelled", false: "failed"}[ctx.Err() != nil])
			return nil, explain(ctx, fmt.Sprintf("provide %s %s", c.Name, c.Version), p.cache.root, err)
		}
		paths[c.Name] = Binary{Path: p.cache.binary(found), Version: c.Version}
	}
	return paths, nil
}

// errNotCached is the absence of a binary where none may be made.
var errNotCached = errors.New("it is not in the cache, and --binaries cache makes nothing")

// absentError is a binary that no source has which may be asked: another choice can be met, and another try cannot.
type absentError struct {
	rule string // "" where the cause says it
	err  error
}

func (e *absentError) Error() string {
	if e.rule == "" {
		return e.err.Error()
	}
	return e.rule + ": " + e.err.Error()
}

func (e *absentError) Unwrap() error { return e.err }

// provide returns the first of the choices that is in the cache, or else the first that can be made.
func (p *prepared) provide(ctx context.Context, choices choices, line *line) (item, error) {
	for _, i := range choices.items {
		if _, err := p.cache.check(i, false); err == nil {
			line.end("cached") // Needs no lock, so a read-only cache will do.
			return i, nil
		}
	}
	if p.from.mode() == FromCache {
		return item{}, &absentError{err: errNotCached}
	}
	var failed []error
	absent := choices.without == nil || isAbsent(choices.without) // as long as all that were asked do not have it
	for n, i := range choices.items {
		err := p.cache.ensure(ctx, i, line)
		if err == nil {
			return i, nil
		}
		failed = append(failed, err)
		absent = absent && isAbsent(err)
		if !p.from.next(err) {
			break
		}
		if n+1 < len(choices.items) {
			line.note(fmt.Sprintf("no %s (%v): next, %s", i.source.Name(), err, choices.items[n+1].source.Name()))
		}
	}
	err := errors.Join(append(failed, choices.without)...)
	if absent {
		err = &absentError{rule: p.from.rule(), err: err}
	}
	return item{}, err
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
	// Source is how a cached binary came here: "build", "download" or "mirror".
	Source string
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
	for _, choices := range p.choices {
		s, err := p.status(ctx, choices, deep)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// status is what the cache holds of a component: a sound entry where one of the choices has one, else a damaged one, else none.
func (p *prepared) status(ctx context.Context, choices choices, deep bool) (Status, error) {
	last := choices.items[len(choices.items)-1] // where a build would put it
	found := Status{Component: last.component, State: Missing, Path: p.cache.binary(last)}
	for _, i := range choices.items {
		meta, err := p.cache.check(i, deep)
		switch {
		case err == nil && found.State != Cached:
			found = Status{Component: i.component, State: Cached, Path: p.cache.binary(i), Size: meta.Size, Source: meta.Source}
		case err == nil, isMissing(err):
		default:
			if found.State == Missing {
				found.State, found.Path, found.Detail = Damaged, p.cache.binary(i), err.Error()
			}
			if deep {
				if err := p.cache.discard(ctx, i); err != nil {
					return found, explain(ctx, "remove damaged "+i.key, p.cache.root, err)
				}
			}
		}
	}
	return found, nil
}

// CacheKey names the content of the cache that Ensure with the same options leaves: equal keys, equal recipes. It is made for CI caches of
// CacheRoot(), and is stable across machines with the same platform and Go release.
func CacheKey(ctx context.Context, o Options) (string, error) {
	p, err := prepare(ctx, o)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, choices := range p.choices {
		for _, i := range choices.items {
			fmt.Fprintln(sum, i.key)
		}
	}
	return fmt.Sprintf("headroom-binaries-%s-%s-%s-%s", p.release.Version, runtime.GOOS, runtime.GOARCH, hex.EncodeToString(sum.Sum(nil))[:keyDigits]), nil
}

// prepared is Options with every default filled in.
type prepared struct {
	release  versions.Release
	cache    cache
	from     Origin
	progress *progress
	choices  []choices
}

// choices are what a component may come from, in the order in which they are tried; there is one at least.
type choices struct {
	component Component
	items     []item
	// without says which source is no choice, and why.
	without error
}

// item is a component from one source, with its place in the cache.
type item struct {
	component Component
	source    Source
	inputs    []string
	key       string
}

func prepare(ctx context.Context, o Options) (*prepared, error) {
	p := &prepared{release: versions.Default(), from: o.From}
	if err := o.From.Check(); err != nil {
		return nil, err
	}
	if o.Kubernetes != "" {
		var err error
		if p.release, err = versions.Lookup(o.Kubernetes); err != nil {
			return nil, err
		}
	}
	if o.Attacher != "" {
		if _, err := versions.Embedded().LookupAttacher(o.Attacher); err != nil {
			return nil, err
		}
		p.release.Attacher = o.Attacher
	}
	table := versions.Embedded()
	provisioner := cmp.Or(o.Provisioner, table.Provisioner())
	if _, err := table.LookupProvisioner(provisioner); err != nil {
		return nil, err
	}
	set, err := Select(p.release, provisioner, o.Components)
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
	out := o.Out
	if out == nil {
		out = io.Discard
	}
	p.progress = newProgress(out, set)
	sources, err := o.From.sources(root)
	if err != nil {
		return nil, cluster.Environment("find the mirror", err)
	}
	for _, c := range set {
		choices, err := plan(ctx, c, sources)
		if err != nil {
			if isAbsent(err) {
				err = &absentError{rule: o.From.rule(), err: err}
			}
			return nil, explain(ctx, fmt.Sprintf("plan %s %s", c.Name, c.Version), root, err)
		}
		if o.From.mode() == FromDownload {
			choices.items = choices.items[:1] // a build is for what the site does not offer
		}
		p.choices = append(p.choices, choices)
	}
	return p, nil
}

// plan lists what a component may come from. A source that cannot say what it would make it from, as a build without Go, is no choice; an error when no
// other is left.
func plan(ctx context.Context, c Component, sources []Source) (choices, error) {
	found := choices{component: c}
	for _, s := range sources {
		if !s.Offers(c) {
			continue
		}
		inputs, err := s.Inputs(ctx, c)
		if err != nil {
			found.without = errors.Join(found.without, err)
			continue
		}
		found.items = append(found.items, item{component: c, source: s, inputs: inputs, key: key(c, inputs)})
	}
	if len(found.items) == 0 {
		return found, found.without
	}
	return found, nil
}
