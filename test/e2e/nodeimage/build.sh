#!/usr/bin/env bash
# Builds a node image for kind from Go modules and Debian packages, for machines
# that reach no container registry: $IMAGE, by default vdi-fleet/node:VERSION.
#
#   test/e2e/nodeimage/build.sh
#
# Does nothing if Docker has the image and none of its inputs has changed.
# Build results stay in ${XDG_CACHE_HOME:-~/.cache}/vdi-fleet/kind
# ($KIND_CACHE): about 2 GB. Needs root, a Docker daemon, debootstrap, gcc, jq,
# pkg-config and libseccomp-dev: docker.sh installs them if there is apt-get.
set -euo pipefail
# shellcheck source=versions.sh
. "$(dirname "$0")/versions.sh"
mkdir -p "$cache"

# Concurrent builds take turns.
exec 9>"$cache/.lock"
flock 9

sum() { { cat "$@"; go env GOVERSION GOARCH; } | sha256sum | cut -d' ' -f1; }
cd "$here"
binaries=$(sum versions.sh binaries.sh kubernetes/go.* kubernetes/*/*.go coredns/* crictl/*)
all=$(sum versions.sh ./*.sh files/* kubernetes/go.* kubernetes/*/*.go coredns/* crictl/* ../../controlplane/*)

if [ "$(docker image inspect -f '{{index .Config.Labels "vdi-fleet.inputs"}}' "$image" 2>/dev/null)" = "$all" ]; then
	echo "kind-image: $image is there"
	exit 0
fi
for tool in docker debootstrap jq gcc pkg-config; do
	command -v $tool >/dev/null || { echo "kind-image: $tool is missing: make kind-docker" >&2 && exit 1; }
done
pkg-config --exists libseccomp || { echo "kind-image: libseccomp-dev is missing: make kind-docker" >&2 && exit 1; }

echo "kind-image: building $image: 12 minutes or more the first time, 3 with warm caches"
"$here"/../../controlplane/build.sh 9>&-
if [ "$(cat "$cache/.binaries" 2>/dev/null)" != "$binaries" ]; then
	./binaries.sh 9>&-
	echo "$binaries" >"$cache/.binaries"
fi
./rootfs.sh 9>&-
./images.sh 9>&-
LABEL="vdi-fleet.inputs=$all" ./node.sh 9>&-
rm -rf "$cache/rootfs" "$cache/images.tar"
echo "kind-image: $image built in ${SECONDS}s"
