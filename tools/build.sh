#!/bin/sh
# Builds the static binaries of the images, reproducibly for the same commit and version of
# Go.
#
#   VERSION=1.0 GOARCH=arm64 tools/build.sh "hub agent" OUTDIR
set -eu
cd "$(dirname "$0")/.."
for name in $1; do
	CGO_ENABLED=0 GOOS=linux GOARCH=${GOARCH:-} go build -trimpath -buildvcs=false \
		-ldflags "-s -w -buildid= -X main.version=${VERSION:-dev}" -o "$2/$name" "./cmd/$name"
done
