#!/usr/bin/env bash
# What `make test` does after building: all stages, even when one fails; then what they took and how many tests passed and failed.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR
source scripts/stages.sh
trap 'exit 130' INT TERM

rm -rf runs/stages
mkdir -p runs/stages
failed=0
for name in lint unit alerts-test binaries cluster-tests kill-test persona-table; do
	if ! stage "$name" make --no-print-directory "$name"; then
		failed=1
		[[ $name != binaries ]] || break # the rest would only try the same builds again
	fi
done
bin/tally summary runs/stages || failed=1
exit "$failed"
