#!/usr/bin/env bash
# smoke-kind.sh WITH-DOCKER...: runs the smoke specs on a kind cluster of one worker, and the tests of what a killed run leaves in the engine. WITH-DOCKER
# runs a command with a Docker daemon: docker-private.sh and its directory. The specs' results are copied to the file that JUNIT names, if it does. Where
# no daemon can be had, says what is missing and ends well: a machine without Docker is no failure of this suite.
set -euo pipefail

if ! scripts/need.sh docker dockerd debootstrap || ! "$@" docker version >/dev/null; then
	echo "smoke-kind: SKIPPED: no container engine can be had here; the lines above say why"
	exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
code=0
"$@" bin/headroom run --provider kind --label-filter smoke --run-dir "$dir/run" || code=$?
[[ -z ${JUNIT:-} || ! -f $dir/run/junit.xml ]] || cp "$dir/run/junit.xml" "$JUNIT"
((code == 0)) || tail -n 60 "$dir"/run/logs/*.log >&2 || true
"$@" go test -count 1 -vet=off -v -run 'SweepAfterKill|PullByDigest' ./e2e/framework/cluster/kind/engine || code=1
exit "$code"
