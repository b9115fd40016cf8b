#!/usr/bin/env bash
# Makes the node's file system in $cache/rootfs: Debian's systemd and network
# tools, the files of kind's own base image (from kind's module), and the
# binaries of binaries.sh. Needs root and debootstrap.
set -euo pipefail
# shellcheck source=versions.sh
. "$(dirname "$0")/versions.sh"
root=$cache/rootfs
bin=$cache/bin
base=$cache/debian.tar
kindfiles=$(module sigs.k8s.io/kind@$kind)/images/base/files

packages=systemd,systemd-sysv,conntrack,iptables,nftables,iproute2,ethtool,util-linux,mount,kmod
packages+=,libseccomp2,pigz,e2fsprogs,bash,ca-certificates,curl,jq,procps,socat,iputils-ping,hostname,findutils,busybox-static

# The packages alone are kept as a tar: later changes here need no mirror.
if [ ! -f "$base" ]; then
	# apt's own mirror, which apt prints once it has package lists.
	mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -1; }
	mirror >/dev/null || apt-get update -qq
	mirror=$(mirror) || { echo "kind-image: apt-get has no mirror of Debian: check /etc/apt/sources.list" >&2 && exit 1; }
	say "debootstrap $debian"
	rm -rf "$root"
	nice -n 10 debootstrap --variant=minbase --include="$packages" "$debian" "$root" "$mirror" >"$cache/debootstrap.log" 2>&1 ||
		{ tail "$cache/debootstrap.log" >&2 && exit 1; }
	# kind's own image removes these units too: they are for machines.
	rm -f "$root"/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service \
		"$root"/lib/systemd/system/{multi-user,local-fs,basic}.target.wants/* \
		"$root"/lib/systemd/system/sockets.target.wants/*{udev,initctl}* \
		"$root"/etc/systemd/system/*.wants/*
	rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
		"$root"/usr/share/{doc,man,locale,info}/* "$root"/etc/{hostname,resolv.conf} "$root"/dev/*
	tar -C "$root" --sort=name --numeric-owner -cf "$base.part" .
	mv "$base.part" "$base"
fi
rm -rf "$root"
mkdir -p "$root"
tar -C "$root" -xpf "$base"

mkdir -p "$root"/kind/{bin,manifests} "$root"/etc/containerd "$root"/etc/systemd/system/kubelet.service.d \
	"$root"/opt/cni/bin "$root"/etc/kubernetes/manifests "$root"/etc/cni/net.d
install -m755 "$kindfiles"/usr/local/bin/entrypoint "$root"/usr/local/bin/
install -m755 "$kindfiles"/kind/bin/*.sh "$root"/kind/bin/
install -m644 "$kindfiles"/etc/crictl.yaml "$root"/etc/
install -m644 "$kindfiles"/etc/default/kubelet "$root"/etc/default/
install -m644 "$kindfiles"/etc/sysctl.d/* "$root"/etc/sysctl.d/
for unit in kubelet.slice undo-mount-hacks.service containerd.service kubelet.service; do
	install -m644 "$kindfiles/etc/systemd/system/$unit" "$root"/etc/systemd/system/
done
install -m644 "$kindfiles"/etc/systemd/system/kubelet.service.d/*.conf "$root"/etc/systemd/system/kubelet.service.d/
# kind's settings, with our pause image. Without CAP_SYS_RESOURCE, which a
# machine may lack (see docker.sh), no process may lower an OOM score.
sed -e "s#registry.k8s.io/pause:[0-9.]*\"#registry.k8s.io/pause:$pause\"#" \
	-e 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' \
	"$kindfiles"/etc/containerd/config.toml >"$root"/etc/containerd/config.toml
echo ReadKMsg=no >>"$root"/etc/systemd/journald.conf
for unit in kubelet containerd undo-mount-hacks; do
	chroot "$root" systemctl -q enable $unit.service
done
chroot "$root" systemctl -q mask systemd-binfmt.service

install -m755 "$bin"/{containerd,ctr,containerd-shim-runc-v2,crictl} "$root"/usr/local/bin/
install -m755 "$bin"/runc "$root"/usr/local/sbin/
install -m755 "$bin"/cni/* "$root"/opt/cni/bin/
install -m755 "$bin"/{kubeadm,kubelet,kubectl} "$root"/usr/bin/
"$bin"/ctr oci spec |
	jq '.hooks.createContainer += [{path: "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' >"$root"/etc/containerd/cri-base.json

# Files that kind reads and applies: the version, the network, and its own
# storage manifest with our tags.
printf %s "$kubernetes" >"$root"/kind/version
install -m644 "$here"/files/cni.yaml "$root"/kind/manifests/default-cni.yaml
sed -n '/^const defaultStorageManifest = `/,/^`/p' "$kindfiles"/../../../pkg/build/nodeimage/const_storage.go |
	sed -e '1d' -e '/^`/d' \
		-e 's#` + storageProvisionerImage + `#docker.io/kindest/local-path-provisioner:vdi-fleet#' \
		-e 's#` + storageHelperImage + `#docker.io/kindest/local-path-helper:vdi-fleet#' >"$root"/kind/manifests/default-storage.yaml
say "file system made, $(du -sh "$root" | cut -f1)"
