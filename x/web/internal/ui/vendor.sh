#!/usr/bin/env bash
#
# Fetches the scripts and the font that the pages need from the npm registry, in the versions and with the hashes of vendor.lock, and
# lays them down in static/vendor. To move to another version: change it and its integrity (npm view NAME@VERSION dist.integrity) there.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

while read -r name version integrity file target; do
	[[ -n $name && $name != \#* ]] || continue
	pack=$work/${name//\//_}-$version
	if [[ ! -d $pack ]]; then
		mkdir -p "$pack"
		tarball=$(cd "$pack" && npm pack --silent "$name@$version")
		got=sha512-$(openssl dgst -sha512 -binary "$pack/$tarball" | base64 -w0)
		[[ $got == "$integrity" ]] || {
			echo "$name@$version: the hash is $got, and vendor.lock has $integrity" >&2
			exit 1
		}
		tar -xzf "$pack/$tarball" -C "$pack"
	fi
	cp "$pack/package/$file" "static/vendor/$target"
	chmod 644 "static/vendor/$target"
done <vendor.lock

# Of source maps nothing is served.
sed -i '/^\/\/# sourceMappingURL=/d' static/vendor/*.js
(cd static/vendor && sha256sum -- * >../../vendor.sums)
