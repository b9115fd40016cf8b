package kindfleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

func (f *Fleet) loadAll(ctx context.Context) error {
	if err := f.Load(ctx, []*Cluster{f.Hub}, f.options.HubImage); err != nil {
		return err
	}
	return f.Load(ctx, f.Members, append([]string{f.options.AgentImage}, f.options.Images...)...)
}

// Load loads images of the local Docker into the nodes of clusters, as `kind load docker-image`
// does. Nodes that have the image are skipped.
func (f *Fleet) Load(ctx context.Context, clusters []*Cluster, images ...string) error {
	for _, image := range images {
		id, err := run(ctx, "docker", "image", "inspect", "-f", "{{.Id}}", image)
		if err != nil {
			return err
		}
		lacking, err := lack(clusters, image, strings.TrimSpace(id))
		if err != nil {
			return err
		}
		if len(lacking) == 0 {
			continue
		}
		if err := f.load(ctx, lacking, image); err != nil {
			return fmt.Errorf("loading %s: %w", image, err)
		}
	}
	return nil
}

// lack returns the nodes that do not have the image.
func lack(clusters []*Cluster, image, id string) ([]nodes.Node, error) {
	var lacking []nodes.Node
	for _, c := range clusters {
		all, err := c.Nodes()
		if err != nil {
			return nil, err
		}
		for _, node := range all {
			// containerd returns an error if it does not have the image.
			if has, err := nodeutils.ImageID(node, image); err != nil || has != id {
				lacking = append(lacking, node)
			}
		}
	}
	return lacking, nil
}

func (f *Fleet) load(ctx context.Context, into []nodes.Node, image string) error {
	archive := filepath.Join(f.dir(), "image.tar")
	defer func() { _ = os.Remove(archive) }()
	if _, err := run(ctx, "docker", "save", "-o", archive, image); err != nil {
		return err
	}
	var group errgroup.Group
	for _, node := range into {
		group.Go(func() error {
			file, err := os.Open(archive)
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			return nodeutils.LoadImageArchive(node, file)
		})
	}
	return group.Wait()
}
