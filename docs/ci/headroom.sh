#!/usr/bin/env bash
# Judges a driver in its own repository's CI: the definition, the driver alone, then the driver in a cluster of real components. Everything to keep ends up
# in one folder, also when something is violated, which is when it is needed.
#
#   HEADROOM  the headroom binary (make build)
#   DRIVER    the driver's definition
#   OUT       folder for reports and timeline (default headroom-out)
#   FOCUS     specs of this shard, a regular expression over ids (default all); "none" stops after the check without a cluster
#   DEADLINE  when to stop (default 30m); what was not begun then is inconclusive
#
# The exit code is the worst of the steps': 1 violated, then 3 environment, then 4 inconclusive or partial; 2 is a mistake in the definition.
set -euo pipefail

: "${HEADROOM:?name the headroom binary}" "${DRIVER:?name the definition of the driver}"
out=${OUT:-headroom-out}
mkdir -p "$out"

# worse A B prints the exit code that outranks the other.
worse() {
	local code
	for code in 1 2 3 4; do
		if [ "$1" = "$code" ] || [ "$2" = "$code" ]; then
			echo "$code"
			return
		fi
	done
	echo "$(($1 > $2 ? $1 : $2))"
}

"$HEADROOM" driver lint "$DRIVER"

result=0
code=0
"$HEADROOM" driver check --driver "$DRIVER" -o yaml >"$out/driver-check.yaml" || code=$?
result=$(worse "$result" "$code")

if [ "${FOCUS:-}" != none ]; then
	code=0
	"$HEADROOM" run --driver "$DRIVER" --focus "${FOCUS:-}" --deadline "${DEADLINE:-30m}" --run-dir "$out/run" || code=$?
	result=$(worse "$result" "$code")
	if [ -e "$out/run/header.json" ]; then
		"$HEADROOM" report "$out/run" --html "$out/timeline.html"
	fi
fi

echo "headroom: exit code $result, reports in $out"
exit "$result"
