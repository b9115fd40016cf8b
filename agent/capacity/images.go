package capacity

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ImageSet is the images that a node has: the hashes of their names, sorted and
// packed into eight bytes each. A node names hundreds of them, and a member has
// thousands of nodes. Two names of one hash are taken for the same: that makes
// a score wrong, and no more.
//
// A kubelet lists its largest images only, 50 by default. What is not listed
// counts as not there.
type ImageSet string

// imageSetOf reads the images that a node reports.
func imageSetOf(images []corev1.ContainerImage) ImageSet {
	var hashes []uint64
	for i := range images {
		for _, name := range images[i].Names {
			hashes = append(hashes, hashImage(name))
		}
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	packed := make([]byte, 0, 8*len(hashes))
	for _, h := range hashes {
		packed = binary.BigEndian.AppendUint64(packed, h)
	}
	return ImageSet(packed)
}

// has reports whether an image is among them, by the hash of its name.
func (s ImageSet) has(hash uint64) bool {
	var wanted [8]byte
	binary.BigEndian.PutUint64(wanted[:], hash)
	_, found := sort.Find(len(s)/8, func(i int) int { return strings.Compare(string(wanted[:]), string(s[8*i:8*i+8])) })
	return found
}

func hashImage(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(fullImageName(name)))
	return h.Sum64()
}

// defaultRegistry is where an image comes from that names no registry, and
// defaultOwner whose it is that names no owner there.
const (
	defaultRegistry = "docker.io"
	defaultOwner    = "library"
)

// fullImageName returns an image's name with nothing left out, as container runtimes
// list it: what a template calls "kiosk" is "docker.io/library/kiosk:latest"
// on a node. Where there is a digest, the tag says nothing more.
func fullImageName(name string) string {
	name, digest, pinned := strings.Cut(name, "@")
	tag := "latest"
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		name, tag = name[:at], name[at+1:]
	}
	registry, path, found := strings.Cut(name, "/")
	if !found || !strings.ContainsAny(registry, ".:") && registry != "localhost" {
		registry, path = defaultRegistry, name
	}
	if registry == "index."+defaultRegistry {
		registry = defaultRegistry
	}
	if registry == defaultRegistry && !strings.Contains(path, "/") {
		path = defaultOwner + "/" + path
	}
	if pinned {
		return registry + "/" + path + "@" + digest
	}
	return registry + "/" + path + ":" + tag
}
