#!/usr/bin/env bash
# need.sh TOOL...: makes sure that the tools are there; installs Debian's when run as root, and says what to do otherwise.
set -euo pipefail

for tool in "$@"; do
	command -v "$tool" >/dev/null && continue
	case $tool in
	go)
		echo "headroom needs Go $(sed -n 's/^go //p' go.mod) or later on the PATH: https://go.dev/doc/install" >&2
		exit 1
		;;
	gcc) packages=(gcc libc6-dev) ;;
	docker | dockerd) packages=(docker.io) ;;
	*) packages=("$tool") ;;
	esac
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		echo "\"$tool\" is missing; install it, on Debian or Ubuntu with: sudo apt-get install ${packages[*]}" >&2
		exit 1
	fi
	echo "installing ${packages[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
done
