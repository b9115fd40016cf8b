#!/usr/bin/env bash
# Provides a Docker daemon: `docker.sh up` installs Debian's packages and starts
# dockerd if no daemon answers, `docker.sh down` stops the one that it started.
# On a machine with Docker and the tools it does nothing.
set -euo pipefail
# shellcheck source=versions.sh
. "$(dirname "$0")/versions.sh"
state=$cache/docker
packages="docker.io debootstrap jq gcc libc6-dev pkg-config libseccomp-dev iptables ca-certificates"

# CAP_SYS_RESOURCE is bit 24.
lacks_sys_resource() { [ $((0x$(sed -n 's/^CapBnd:\t//p' /proc/self/status) >> 24 & 1)) -eq 0 ]; }

# The daemon's configuration is written only if there is none: a default runtime
# that requests no capability that the machine cannot grant.
configure() {
	[ ! -e /etc/docker/daemon.json ] || return 0
	mkdir -p /etc/docker
	if lacks_sys_resource; then
		install -m755 "$here"/files/runc-without-sys-resource "$state"/runc
		printf '{"default-cgroupns-mode": "private", "default-runtime": "vdi-fleet", "runtimes": {"vdi-fleet": {"path": "%s"}}}\n' \
			"$state/runc" >/etc/docker/daemon.json
	else
		echo '{"default-cgroupns-mode": "private"}' >/etc/docker/daemon.json
	fi
	cp /etc/docker/daemon.json "$state"/daemon.json
}

up() {
	mkdir -p "$state"
	if ! command -v dockerd >/dev/null && ! docker info >/dev/null 2>&1 || ! command -v debootstrap >/dev/null || ! pkg-config --exists libseccomp; then
		if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
			echo "kind-docker: no Docker daemon or build tools here, and they can only be installed as root with apt-get: $packages" >&2
			exit 1
		fi
		say "installing $packages"
		apt-get update -qq
		# shellcheck disable=SC2086
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >"$state"/apt.log 2>&1 ||
			{ tail "$state"/apt.log >&2 && exit 1; }
	fi
	if ! docker info >/dev/null 2>&1; then
		[ "$(id -u)" = 0 ] || { echo "kind-docker: no Docker daemon answers, and only root can start one" >&2 && exit 1; }
		configure
		setsid nohup dockerd --pidfile "$state"/dockerd.pid >"$state"/dockerd.log 2>&1 </dev/null &
		for _ in $(seq 100); do
			docker info >/dev/null 2>&1 && break
			sleep 0.3
		done
		docker info >/dev/null 2>&1 || { tail "$state"/dockerd.log >&2 && exit 1; }
		say "dockerd runs, its log is $state/dockerd.log"
	fi
	# Each kubelet and each systemd watches files; the usual 128 are too few for
	# four clusters. Without the right to set it, kind's own message explains it.
	if [ "$(cat /proc/sys/fs/inotify/max_user_instances)" -lt 1024 ]; then
		sysctl -qw fs.inotify.max_user_instances=1024 2>/dev/null || true
	fi
}

down() {
	[ -f "$state"/dockerd.pid ] || return 0
	kill "$(cat "$state"/dockerd.pid)" 2>/dev/null || true
	for _ in $(seq 100); do
		[ -f "$state"/dockerd.pid ] || break
		sleep 0.2
	done
	if cmp -s "$state"/daemon.json /etc/docker/daemon.json; then rm -f /etc/docker/daemon.json; fi
	say "dockerd stopped"
}

case ${1:-} in
up | down) "$1" ;;
*) echo "usage: $0 up|down" >&2 && exit 2 ;;
esac
