#!/usr/bin/env bash
# Makes the node image: imports the file system, and lets a containerd inside it
# import the images.
set -euo pipefail
# shellcheck source=versions.sh
. "$(dirname "$0")/versions.sh"
name=vdi-fleet-node-build-$$

tar -C "$cache/rootfs" -c . | docker import - vdi-fleet/node-base:flat >/dev/null
# docker import does not support STOPSIGNAL: a Dockerfile adds it.
"$here"/../../../tools/docker-build.sh -t vdi-fleet/node-base:latest - <<'DOCKERFILE'
FROM vdi-fleet/node-base:flat
STOPSIGNAL SIGRTMIN+3
ENV container=docker
ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]
DOCKERFILE
trap 'docker rm -f -v $name >/dev/null' EXIT
docker run -d --name $name --net none --entrypoint=sleep --privileged --security-opt seccomp=unconfined vdi-fleet/node-base:latest infinity >/dev/null
docker exec -d $name containerd
for _ in $(seq 100); do
	docker exec $name ctr info >/dev/null 2>&1 && break
	sleep 0.3
done
docker exec -i $name ctr -n k8s.io images import --label=io.cri-containerd.pinned=pinned --all-platforms --no-unpack --digests --compress-blobs - <"$cache/images.tar" >/dev/null
# --compress-blobs keeps the uncompressed blobs too, for the index that was
# imported; without the index, garbage collection removes them: 626 MB become 146.
docker exec $name sh -c 'ctr -n k8s.io images rm --sync $(ctr -n k8s.io images ls -q | grep ^import-) >/dev/null; kill $(pidof containerd); sleep 1; rm -rf /run/containerd'
docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]' --change "LABEL ${LABEL:?}" $name "$image" >/dev/null
say "$image, $(docker image inspect -f '{{.Size}}' "$image" | numfmt --to=iec)"
