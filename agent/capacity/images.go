package capacity

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
)

// ImageSet is the set of a node's images: the hashes of their names, sorted and packed into
// eight bytes each, since a node has hundreds of names and a member thousands of nodes. A
// collision of two names only makes a score wrong.
//
// A kubelet lists only its largest images, 50 by default.
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

// has reports whether the set contains the hash of an image's name.
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

// fullImageName returns the complete name of an image, as container runtimes list it:
// "kiosk" of a template is "docker.io/library/kiosk:latest" on a node. A tag beside a
// digest is dropped.
func fullImageName(name string) string {
	name, digest, pinned := strings.Cut(name, "@")
	tag := "latest"
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		name, tag = name[:at], name[at+1:]
	}
	registry, path, _ := strings.Cut(restriction.Qualified(name), "/")
	if registry == "index.docker.io" {
		registry = "docker.io"
	}
	if registry == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	if pinned {
		return registry + "/" + path + "@" + digest
	}
	return registry + "/" + path + ":" + tag
}
