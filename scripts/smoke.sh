#!/usr/bin/env bash
# smoke.sh [JUNIT]: runs the smoke specs as an ordinary user, without any privilege: as oneself, or as `nobody` when run by root. Everything that the
# user needs is a copy in a temporary directory, which is removed. The results are copied to the file JUNIT.
set -euo pipefail

dir=$(mktemp -d /tmp/headroom-smoke.XXXXXX)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
mkdir "$dir/home" "$dir/tmp" "$dir/cache" "$dir/cache/bin"
cp bin/headroom "$dir/headroom"
bin/headroom binaries | awk 'NR > 1 { print $3, $NF }' | while read -r state path; do
	[[ $state == cached && -x $path ]] || { echo "the components are not all there; run: make binaries" >&2; exit 1; }
	# Links cost nothing where the cache is on the same disk.
	cp -al "$(dirname "$path")" "$dir/cache/bin/" 2>/dev/null || cp -a "$(dirname "$path")" "$dir/cache/bin/"
done

as=()
if [[ $(id -u) == 0 ]]; then
	chown -R nobody: "$dir/home" "$dir/tmp"
	as=(setpriv --reuid "$(id -u nobody)" --regid "$(id -g nobody)" --clear-groups --no-new-privs)
fi
go=$(command -v go)
# GOPROXY=off: to build here would mean that the cache was not used; better to fail at once than to build for a quarter of an hour.
ordinary() {
	(cd "$dir/home" && "${as[@]}" env -i PATH="${go%/*}:/usr/bin:/bin" HOME="$dir/home" TMPDIR="$dir/tmp" HEADROOM_CACHE="$dir/cache" GOPROXY=off \
		"$dir/headroom" "$@")
}

# A smoke that cannot run has not passed: doctor says what the machine lacks, and the command that mends it.
ordinary doctor
code=0
ordinary run --run-dir "$dir/home/run" --label-filter smoke || code=$?
[[ -z ${1:-} || ! -f $dir/home/run/junit.xml ]] || cp "$dir/home/run/junit.xml" "$1"
((code == 0)) || tail -n 60 "$dir"/home/run/logs/*.log >&2 || true
exit "$code"
