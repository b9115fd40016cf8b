#!/usr/bin/env bash
# Builds the images of hub and agent, reproducibly for the same commit.
#
#   VERSION=1.0 HUB_IMG=vdi-hub:1.0 AGENT_IMG=vdi-agent:1.0 tools/images.sh
#
# PLATFORMS are the platforms to build, such as linux/amd64,linux/arm64 (default: that of this
# machine); the tags of other architectures have the architecture as a suffix. With GO_IMAGE
# (such as golang:1.26) the binaries are built in that image, otherwise on this machine,
# without access to a registry. Needs Docker; its classic builder suffices.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-dev}
revision=$(git rev-parse HEAD 2>/dev/null || true)
# All times in the images are the commit's.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
machine=linux/$(go env GOHOSTARCH)
platforms=${PLATFORMS:-$machine}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

(cd tools/image && CGO_ENABLED=0 go build -buildvcs=false -o "$scratch/image" .)

# build NAME IMAGE PLATFORM
build() {
	local name=$1 image=$2 platform=$3 arch=${3#linux/} context
	local args=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision"
		--build-arg "CREATED=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)")
	[ "$platform" = "$machine" ] || image+=-$arch
	if [ -n "${GO_IMAGE:-}" ]; then
		context=.
		args+=(--build-arg "GO_IMAGE=$GO_IMAGE" --build-arg "TARGETARCH=$arch")
	else
		context=dist/images/$arch
		args+=(--target binary)
		VERSION=$version GOARCH=$arch tools/build.sh "$name" "$PWD/$context"
		touch -d "@$epoch" "$context/$name"
	fi
	tools/docker-build.sh "${args[@]}" -f "Dockerfile.$name" -t "$image-built" "$context"
	docker save "$image-built" -o "$scratch/built.tar"
	docker rmi "$image-built" >/dev/null
	"$scratch/image" --epoch "$epoch" --platform "$platform" "$scratch/built.tar" "$scratch/image.tar" "$image" >/dev/null
	docker load -q -i "$scratch/image.tar" >/dev/null
	printf 'docker-build: %-32s %-12s %5s  %s\n' "$image" "$platform" \
		"$(docker image inspect -f '{{.Size}}' "$image" | numfmt --to=iec)" "$(docker image inspect -f '{{.Id}}' "$image")"
}

for platform in ${platforms//,/ }; do
	build hub "${HUB_IMG:-vdi-hub:$version}" "$platform"
	build agent "${AGENT_IMG:-vdi-agent:$version}" "$platform"
done
