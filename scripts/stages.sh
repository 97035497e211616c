# shellcheck shell=bash
# To be sourced. What each stage did lies in runs/stages: a line "name seconds exit" in the file "stages", and <name>.json or <name>.xml where the
# stage ran tests. `bin/tally summary runs/stages` prints it.

# stage NAME COMMAND...: runs the command and notes it.
stage() {
	local name=$1 began=$SECONDS code=0
	shift
	printf '\n== %s\n' "$name"
	"$@" || code=$?
	echo "$name $((SECONDS - began)) $code" >>runs/stages/stages
	return "$code"
}
