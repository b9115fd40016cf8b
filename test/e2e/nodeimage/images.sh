#!/usr/bin/env bash
# Makes the images that kubeadm and the manifests name, with docker import, and
# saves them as $cache/images.tar. Runs after binaries.sh and rootfs.sh.
set -euo pipefail
# shellcheck source=versions.sh
. "$(dirname "$0")/versions.sh"
bin=$cache/bin
root=$cache/rootfs
stage=$cache/stage
plane=${CONTROLPLANE:-$here/../../../bin/controlplane}
names=()
rm -rf "$stage"

# import NAME DIRECTORY [DOCKERFILE INSTRUCTION...]
import() {
	local name=$1 directory=$2 changes=(-c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin') change
	shift 2
	for change in "$@"; do changes+=(-c "$change"); done
	tar -C "$directory" --owner=0 --group=0 --numeric-owner --mtime=@$epoch --sort=name -c . |
		docker import "${changes[@]}" - "$name" >/dev/null
	names+=("$name")
}

# single IMAGE NAME-OF-THE-BINARY
single() {
	local directory=$stage/$2
	mkdir -p "$directory"/usr/local/bin "$directory"/tmp
	chmod 1777 "$directory"/tmp
	cp "$bin/$2" "$directory"/usr/local/bin/
	import "$1" "$directory" "ENTRYPOINT [\"/usr/local/bin/$2\"]"
}

# The control plane is one binary with a name for each component: one layer that
# four images share and the node stores once.
plane() {
	local directory=$stage/plane component
	mkdir -p "$directory"/usr/local/bin "$directory"/tmp
	chmod 1777 "$directory"/tmp
	cp "$plane" "$directory"/usr/local/bin/controlplane
	for component in etcd kube-apiserver kube-controller-manager kube-scheduler; do
		ln -s controlplane "$directory"/usr/local/bin/$component
	done
	import registry.k8s.io/etcd:"${etcd#v}"-0 "$directory"
	for component in kube-apiserver kube-controller-manager kube-scheduler; do
		printf 'FROM registry.k8s.io/etcd:%s-0\nENTRYPOINT ["/usr/local/bin/%s"]\n' "${etcd#v}" $component |
			"$here"/../../../tools/docker-build.sh -t registry.k8s.io/$component:$kubernetes -
		names+=("registry.k8s.io/$component:$kubernetes")
	done
}

busybox() {
	local directory=$stage/helper applet
	mkdir -p "$directory"/{bin,tmp,etc}
	chmod 1777 "$directory"/tmp
	cp "$root"/usr/bin/busybox "$directory"/bin/ 2>/dev/null || cp "$root"/bin/busybox "$directory"/bin/
	for applet in $("$directory"/bin/busybox --list); do
		[ "$applet" = busybox ] || ln -s busybox "$directory/bin/$applet"
	done
	printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$directory"/etc/passwd
	import docker.io/kindest/local-path-helper:vdi-fleet "$directory" 'CMD ["/bin/sh"]'
}

# kube-proxy calls Debian's nft, iptables and conntrack, which need their
# libraries, and those of every xtables module: without libm, libxt_statistic
# does not load, and Services with more than one endpoint fail.
proxy() {
	local directory=$stage/kube-proxy libraries tool library target
	libraries=usr/lib/$(gcc -print-multiarch)
	mkdir -p "$directory"/{usr/local/bin,usr/sbin,usr/lib64,run,etc,tmp,"$libraries"}
	chmod 1777 "$directory"/tmp
	ln -s usr/lib "$directory"/lib
	ln -s usr/lib64 "$directory"/lib64
	ln -s usr/sbin "$directory"/sbin
	cp "$bin"/kube-proxy "$directory"/usr/local/bin/
	cp -a "$root"/usr/sbin/{nft,xtables-nft-multi,xtables-legacy-multi,conntrack} "$root"/usr/sbin/ip*tables-{nft,legacy}* "$directory"/usr/sbin/
	cp -a "$root/$libraries"/xtables "$directory/$libraries"/
	for tool in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
		ln -s "${tool/tables/tables-nft}" "$directory"/usr/sbin/$tool
	done
	chroot "$root" sh -c "ldd /usr/sbin/nft /usr/sbin/xtables-nft-multi /usr/sbin/xtables-legacy-multi /usr/sbin/conntrack /$libraries/xtables/*.so" |
		grep -v ':$' | grep -oE '/[^ ]+\.so[^ ]*' | sort -u | while read -r library; do
		target=$(chroot "$root" readlink -f "$library")
		mkdir -p "$directory$(dirname "$target")" "$directory/usr$(dirname "${library#/usr}")"
		cp -a "$root$target" "$directory$target"
		[ -e "$directory/usr${library#/usr}" ] || ln -sf "$target" "$directory/usr${library#/usr}"
	done
	import registry.k8s.io/kube-proxy:$kubernetes "$directory"
}

plane
single registry.k8s.io/coredns/coredns:$coredns coredns
single registry.k8s.io/pause:$pause pause
single docker.io/kindest/kindnetd:vdi-fleet kindnetd
single docker.io/kindest/local-path-provisioner:vdi-fleet local-path-provisioner
busybox
proxy
docker save "${names[@]}" -o "$cache/images.tar.part"
mv "$cache/images.tar.part" "$cache/images.tar"
rm -rf "$stage"
docker rmi "${names[@]}" >/dev/null
say "${#names[@]} images saved, $(du -sh "$cache/images.tar" | cut -f1)"
