#!/usr/bin/env bash
# Judges a driver in its own repository's CI: the definition, the driver alone, then the driver in a cluster of real components. Everything to keep ends up
# in one folder, also when something is violated, which is when it is needed.
#
#   HEADROOM  the headroom binary (make build)
#   DRIVER    the driver's definition
#   OUT       folder for reports and timeline (default headroom-out); one that holds an earlier run's is refused, so that no report is taken for another's
#   FOCUS     specs of this shard, a regular expression over ids (default all); "none" stops after the check without a cluster
#   DEADLINE  when to stop (default 30m); what was not begun then is inconclusive
#
# The exit code is the worst of the steps', and the last line says it: 1 violated, then 2 a mistake in what is given above, then 3 environment, also when the
# timeline cannot be drawn, then 4 inconclusive or partial.
set -euo pipefail

# end CODE WHY says the last line and ends.
end() {
	echo "headroom: exit code $1, $2"
	exit "$1"
}

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

[ -n "${HEADROOM:-}" ] || end 2 "HEADROOM is not set: name the headroom binary"
[ -n "${DRIVER:-}" ] || end 2 "DRIVER is not set: name the definition of the driver"
out=${OUT:-headroom-out}
for made in driver-check.yaml run timeline.html; do
	[ ! -e "$out/$made" ] || end 2 "$out/$made is there, of an earlier run: remove driver-check.yaml, run and timeline.html from $out, or name another folder with OUT"
done

"$HEADROOM" driver lint "$DRIVER" || end $? "nothing was run: see above what is wrong with $DRIVER"

# A folder that cannot be written must not end with 1, which is for drivers.
{ mkdir -p "$out" && : >"$out/driver-check.yaml"; } || end 3 "$out cannot be written: name another folder with OUT"

result=0
code=0
"$HEADROOM" driver check --driver "$DRIVER" -o yaml >"$out/driver-check.yaml" || code=$?
result=$(worse "$result" "$code")

if [ "${FOCUS:-}" != none ]; then
	code=0
	"$HEADROOM" run --driver "$DRIVER" --focus "${FOCUS:-}" --deadline "${DEADLINE:-30m}" --run-dir "$out/run" || code=$?
	result=$(worse "$result" "$code")
	if [ -e "$out/run/header.json" ]; then
		"$HEADROOM" report "$out/run" --html "$out/timeline.html" || result=$(worse "$result" 3)
	fi
fi

end "$result" "reports in $out"
