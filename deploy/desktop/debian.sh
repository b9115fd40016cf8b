#!/usr/bin/env bash
# Builds the desktop's root file system from Debian packages: debian.sh OUT.tar [PACKAGE...],
# with additional packages such as firefox-esr. Needs root, mmdebstrap, and the mirror of
# this machine's apt. It is reproducible for the same packages, which are listed in
# /var/lib/dpkg/status, as scanners expect.
set -euo pipefail
out=$(realpath -m "$1")
shift
cd "$(dirname "$0")"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1767225600}

# An X server with VNC, a window manager, a terminal, an init, and basic command line tools.
packages=(tigervnc-standalone-server openbox xterm tini fonts-dejavu-core ca-certificates less nano procps "$@")

# Dependencies of unused features: GL drivers, loaders of rare image formats, Perl and Python
# for scripts that are not run. They are kept if there are additional packages, which may
# need them. A * matches versions.
dispensable=('libllvm*' libz3-4 libgl1-mesa-dri libglx-mesa0 mesa-libgallium
	perl 'perl-modules-*' 'libperl5.*' 'libgdbm*'
	'python3*' 'libpython3*'
	libspectre1 'libgs1*' libgs-common poppler-data fonts-urw-base35
	libheif1 'libheif-plugin-*' 'libx265-*' libde265-0 'libaom3' 'libjxl0.*' 'librav1e*' 'libsvtav1*' shared-mime-info
	tigervnc-common xauth)

[ $# -eq 0 ] || dispensable=()
patterns=("${dispensable[@]/%/.list}" "${dispensable[@]/%/:*.list}")

hooks=$(mktemp -d)
trap 'rm -rf "$hooks"' EXIT

# noVNC consists of static files, but its package depends on nodejs. While its page loads, it
# waits for the browser to decode an H.264 frame, without a timeout if that hangs
# (github.com/novnc/noVNC/issues/2034). The X server sends no H.264: the check is removed.
cat >"$hooks/novnc" <<'HOOK'
set -eu
cd "$1/tmp"
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq download novnc
dpkg-deb -x novnc_*.deb "$1"
rm -f novnc_*.deb
check='^supportsWebCodecsH264Decode = await .*'
grep -q "$check" "$1/usr/share/novnc/core/util/browser.js" || {
	echo "the H.264 check of noVNC has changed: find out whether it still has no timeout, and update this script" >&2 && exit 1
}
sed -i "/$check/d" "$1/usr/share/novnc/core/util/browser.js"
HOOK

# Purged rather than deleted, so that dpkg's status matches the files.
cat >"$hooks/slim" <<HOOK
set -eu
[ -z "${dispensable[*]}" ] || rm -f "\$1"/usr/lib/*/imlib2/loaders/{heif,jxl,ps,svg,tiff,webp,j2k,id3,gif}.so
drop=
for list in \$(cd "\$1/var/lib/dpkg/info" && ls -d ${patterns[*]} 2>/dev/null | sort -u); do
	drop="\$drop \${list%.list}"
done
[ -z "\$drop" ] || chroot "\$1" dpkg --purge --force-depends \$drop
HOOK

# Removes set-uid and set-gid bits, adds the user, and sets a readable terminal font.
cat >"$hooks/finish" <<'HOOK'
set -eu
echo 'desktop:x:1000:1000:Desktop:/home/user:/bin/bash' >>"$1/etc/passwd"
echo 'desktop:x:1000:' >>"$1/etc/group"
mkdir -p "$1/home/user"
chown 1000:1000 "$1/home/user"
cat files/XTerm >>"$1/etc/X11/app-defaults/XTerm"
cp files/menu.xml "$1/etc/xdg/openbox/menu.xml"
sed -i '/debian-menu.xml/d' "$1/etc/xdg/openbox/rc.xml"
find "$1" -xdev -type f -perm /6000 -exec chmod a-s {} +
# Fails the build if a program lacks a library that was purged.
lacking=$(chroot "$1" sh -c 'ldd /usr/bin/* /usr/lib/*/imlib2/loaders/*.so 2>/dev/null' | grep 'not found' | sort -u || true)
[ -z "$lacking" ] || { echo "libraries are missing: $lacking" >&2 && exit 1; }
cd "$1"
rm -rf etc/machine-id etc/hostname etc/resolv.conf etc/*- var/log/* var/cache/* var/lib/apt/* var/lib/dpkg/*-old tmp/* usr/share/{doc,man,info,lintian,bug}
HOOK
chmod +x "$hooks"/*

nice -n 19 mmdebstrap --quiet --mode=root --variant=essential --skip=output/dev --include="$(IFS=, && echo "${packages[*]}")" \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
	--customize-hook="bash $hooks/novnc \"\$1\"" --customize-hook="bash $hooks/slim \"\$1\"" \
	--customize-hook="bash $hooks/finish \"\$1\"" trixie "$out"
