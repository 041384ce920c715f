#!/usr/bin/env bash
#
# Fetches third-party files from the npm registry, in the versions and with the hashes of a list:
#
#   x/web/vendor.sh LIST FOLDER
#
# Each line of LIST has a package, its version, its integrity, a file in it, and the name of the
# file in FOLDER. To update a package, change its version and integrity (npm view NAME@VERSION
# dist.integrity) in the list. The hashes of the files are written to LIST.sums.

set -euo pipefail
list=$1 folder=$2

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
			echo "$name@$version: the hash is $got, and $list has $integrity" >&2
			exit 1
		}
		tar -xzf "$pack/$tarball" -C "$pack"
	fi
	# Source maps are not served.
	LC_ALL=C sed '/^\/\/# sourceMappingURL=/d' "$pack/package/$file" >"$folder/$target"
done <"$list"

(cd "$folder" && sha256sum -- *) >"$list.sums"
