package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// parcel is what goes ahead of a submit: a graph or a package.
type parcel struct {
	name string // for messages
	hash comms.Hash
	send func(ctx context.Context, piece func(offset, total int64, b []byte) error) error
}

// sealedGraph is a graph whose environments name packages, and what it was before.
type sealedGraph struct {
	before, graph *dag.Graph
}

// pack returns the graph with packages in the places of the folders and files of
// its environments that are on this host or at an address, and with what the files of
// its inputs hold; and what is to be sent of them while p is open.
func (c *Conn) pack(ctx context.Context, g *dag.Graph, dir string, p *runtimeenv.Packer) (*dag.Graph, []parcel, error) {
	g, programs, err := c.withProgram(g)
	if err != nil {
		return nil, nil, err
	}
	inputs, packs, err := c.packInputs(ctx, g, dir)
	if err != nil {
		return nil, nil, err
	}
	envs, err := c.packEnvironments(ctx, g, dir, p)
	if err != nil {
		return nil, nil, err
	}
	sealed := g
	if len(inputs)+len(p.Packs()) > 0 {
		if sealed, err = c.packed.seal(g, envs, inputs); err != nil {
			return nil, nil, err
		}
	}
	var parcels []parcel
	for _, pack := range slices.Concat(packs, programs, p.Packs()) {
		parcels = append(parcels, parcel{pack.Name, comms.PackageHash(pack.Hash), func(ctx context.Context, piece func(int64, int64, []byte) error) error {
			return pack.Send(ctx, blobPiece, piece)
		}})
	}
	return sealed, parcels, nil
}

// packEnvironments returns the environments of a graph with packages in them. An
// older controller keeps no packages: then its agents look for the paths.
func (c *Conn) packEnvironments(ctx context.Context, g *dag.Graph, dir string, p *runtimeenv.Packer) ([]dag.Environment, error) {
	if len(g.Environments) == 0 || !slices.Contains(c.ctrl.current().Peer().Features, comms.FeaturePackages) {
		return g.Environments, nil
	}
	envs := slices.Clone(g.Environments)
	var err error
	for i := range envs {
		source := envs[i].Source
		if envs[i].Source = filepath.Join(dir, source); filepath.IsAbs(source) {
			envs[i].Source = source
		}
		packed, e := p.Pack(ctx, envs[i])
		if e == nil {
			e = c.withoutPlatforms(&packed, &envs[i])
		}
		envs[i], err = packed, errors.Join(err, e)
		envs[i].Source = source
	}
	return envs, err
}

// withoutPlatforms makes an environment one that an older controller knows: the platform
// of its binary is left out.
func (c *Conn) withoutPlatforms(packed, was *dag.Environment) error {
	switch {
	case len(packed.Binaries) == 0 || slices.Contains(c.ctrl.current().Peer().Features, comms.FeaturePlatforms):
		return nil
	case len(was.Binaries) > 0:
		return fmt.Errorf("environment %q: the controller is of a version that knows no binaries for platforms: update it, or name one binary", was.Name)
	}
	packed.Binary, packed.Binaries = packed.Binaries[0].Path, nil
	return nil
}

// seal returns the graph with other environments and inputs, the same as the last
// time when nothing has changed: it need not travel again then.
func (ps *packings) seal(g *dag.Graph, envs []dag.Environment, inputs []dag.Group) (*dag.Graph, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, s := range ps.sealed {
		if s.before == g && reflect.DeepEqual(s.graph.Environments, envs) && slices.EqualFunc(s.graph.InputGroups(), inputs, sameInput) {
			return s.graph, nil
		}
	}
	sealed, err := g.WithEnvironments(envs)
	if err == nil {
		sealed, err = sealed.WithInputs(inputs)
	}
	if err != nil {
		return nil, err
	}
	ps.sealed.add(sealedGraph{g, sealed})
	return sealed, nil
}

func sameInput(a, b dag.Group) bool { return reflect.DeepEqual(a, b) }

// uploads is how often what the controller lacks is sent: it may start anew meanwhile.
const uploads = 3

// upload sends what the controller lacks. When it returns without error all of it is
// there, and waits for the submit.
func (c *Conn) upload(ctx context.Context, all []parcel) error {
	for try := 0; ; try++ {
		missing, why, err := c.lacks(ctx, all)
		switch {
		case err != nil:
			return fmt.Errorf("upload: %w", err)
		case len(missing) == 0:
			return nil
		case why != "":
			return fmt.Errorf("upload %s: %w: the controller did not keep it: %s", missing[0].name, ErrUnavailable, why)
		case try == uploads:
			return fmt.Errorf("upload %s: %w: the controller lost it %d times", missing[0].name, ErrUnavailable, try)
		}
		for _, p := range missing {
			if err := c.uploadOne(ctx, p); err != nil {
				return fmt.Errorf("upload %s: %w", p.name, err)
			}
		}
	}
}

func (c *Conn) uploadOne(ctx context.Context, p parcel) error {
	return p.send(ctx, func(offset, total int64, b []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if total > mostKept {
			return fmt.Errorf("%w: it has %d bytes, and a controller keeps at most %d", ErrBadRequest, total, int64(mostKept))
		}
		return c.ctrl.send(comms.Encode(&comms.Blob{Hash: p.hash, Offset: uint64(offset), Total: uint64(total)}), b)
	})
}

// lacks asks the controller which of the parcels it lacks, and what befell those that were sent.
func (c *Conn) lacks(ctx context.Context, all []parcel) (missing []parcel, why string, err error) {
	if len(all) == 0 {
		return nil, "", nil
	}
	m, err := c.ctrl.requests.one(ctx, func(req uint64) comms.Message {
		ask := &comms.HaveReq{Req: req}
		for _, p := range all {
			ask.Hashes = append(ask.Hashes, p.hash)
		}
		return ask
	})
	if err != nil {
		return nil, "", err
	}
	h, ok := m.(*comms.Have)
	if !ok {
		return nil, "", fmt.Errorf("unexpected answer %T", m)
	}
	for _, p := range all {
		if slices.Contains(h.Missing, p.hash) {
			missing = append(missing, p)
		}
	}
	return missing, h.Why, nil
}
