#!/usr/bin/env bash
# docker-private.sh DIR start|stop|COMMAND...: a Docker daemon of our own, for machines where none runs. Everything of it lies in DIR: images (kept from
# one time to the next), sockets, log. `start` prints its DOCKER_HOST; `stop` ends that daemon and nothing else. With a COMMAND, starts the daemon,
# runs the command with DOCKER_HOST set, and stops the daemon again, unless one that answers is there already: then that one serves, and stays. A daemon of
# ours whose starter was killed before it could stop it is taken over.
#
# Where this machine lacks a capability that containers ask for, the daemon's runtime drops it from what they ask. DOCKER_PRIVATE=1 makes a daemon of
# our own even where one answers.
set -euo pipefail

usage() {
	echo "usage: docker-private.sh DIR start|stop|COMMAND..." >&2
	exit 2
}

[[ $# -ge 2 && $1 == /* ]] || usage
dir=$1
shift
run=$dir/run
socket=unix://$run/docker.sock

fail() {
	echo "docker-private: $1" >&2
	echo "  remedy: $2" >&2
	exit 3
}

# lacking prints the capabilities outside this process's bounding set, one a line.
lacking() {
	local names=(CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN
		NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
		SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
		CHECKPOINT_RESTORE)
	local has i
	has=$((16#$(awk '/^CapBnd:/ { print $2 }' /proc/self/status)))
	for i in "${!names[@]}"; do
		((has >> i & 1)) || echo "CAP_${names[i]}"
	done
}

# runtime writes the daemon's runtime: runc, asked for no capability that is lacking. A bundle and an exec's process file list them as JSON strings.
runtime() {
	local runc expression='' name
	runc=$(command -v runc) || fail "runc is missing" "apt-get install runc"
	for name in "$@"; do
		expression+="s/\"$name\",//g;s/,\"$name\"//g;s/\"$name\"//g;"
	done
	cat >"$dir/runc" <<END
#!/bin/sh
# Written by docker-private.sh: runc without $*.
strip() { [ -f "\$1" ] && sed -i '$expression' "\$1"; }
previous=
for argument in "\$@"; do
	case \$previous in
	--bundle | -b) strip "\$argument/config.json" ;;
	--process | -p) strip "\$argument" ;;
	esac
	case \$argument in
	--bundle=*) strip "\${argument#--bundle=}/config.json" ;;
	--process=*) strip "\${argument#--process=}" ;;
	esac
	previous=\$argument
done
exec $runc "\$@"
END
	chmod 755 "$dir/runc"
}

# ours prints the process id of our daemon while it runs. The file alone proves nothing: another process may have got the number since.
ours() {
	local pid
	pid=$(cat "$run/docker.pid" 2>/dev/null) || return 1
	tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF -e "$run/docker.pid" || return 1
	echo "$pid"
}

# keep makes this process the one that stops the daemon.
keep() {
	echo "$$ $(started $$)" >"$run/keeper"
	trap stop EXIT
}

# orphaned says whether the daemon was to be stopped by a process that is gone.
orphaned() {
	local pid start
	read -r pid start 2>/dev/null <"$run/keeper" || return 1
	[[ $(started "$pid") != "$start" ]]
}

# started prints when a process started, in clock ticks since boot; nothing when it is gone.
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

start() {
	ours >/dev/null && return
	command -v dockerd >/dev/null || fail "dockerd is missing" "apt-get install docker.io, or set DOCKER_HOST to a daemon that runs"
	[[ $(id -u) == 0 ]] || fail "a Docker daemon needs root" "run as root, or set DOCKER_HOST to a daemon that runs"
	local missing options=()
	mkdir -p "$run" "$dir/root"
	rm -f "$run/docker.pid"
	mapfile -t missing < <(lacking)
	if ((${#missing[@]})); then
		runtime "${missing[@]}"
		options=(--add-runtime "headroom=$dir/runc" --default-runtime headroom)
	fi
	setsid dockerd --data-root "$dir/root" --exec-root "$run/exec" --pidfile "$run/docker.pid" -H "$socket" --containerd-namespace headroom \
		--containerd-plugins-namespace headroom-plugins "${options[@]}" >"$dir/dockerd.log" 2>&1 </dev/null &
	local i
	for ((i = 0; i < 300; i++)); do
		docker -H "$socket" version >/dev/null 2>&1 && return
		kill -0 $! 2>/dev/null || break
		sleep 0.1
	done
	tail -n 5 "$dir/dockerd.log" >&2
	stop
	fail "dockerd did not start" "see $dir/dockerd.log"
}

stop() {
	local pid i
	pid=$(ours) || return 0
	rm -f "$run/keeper"
	kill "$pid"
	for ((i = 0; i < 300; i++)); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	fail "the daemon (process $pid) does not end" "kill -9 $pid"
}

case $1 in
start)
	start
	rm -f "$run/keeper"
	echo "DOCKER_HOST=$socket"
	;;
stop) stop ;;
*)
	if [[ -z ${DOCKER_PRIVATE:-} ]] && docker version >/dev/null 2>&1; then
		exec "$@"
	fi
	if ! ours >/dev/null; then
		trap stop EXIT
		start
		keep
	elif orphaned; then
		keep
	fi
	code=0
	DOCKER_HOST=$socket "$@" || code=$?
	exit "$code"
	;;
esac
