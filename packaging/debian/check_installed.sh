#!/bin/sh
# Run by scripts/test-deb.sh inside a root where harmonics was just installed: the units, an upgrade, remove, purge.
set -eu
say() { echo "test-deb: $*"; }
die() { echo "test-deb: $*" >&2; exit 1; }
unit_line() { sed -n "s/^$2=//p" "/lib/systemd/system/harmonics-$1.service"; }
admin() { command=$1; shift; harmonics "$command" --scheduler localhost:50051 --tls /etc/harmonics/server --patience 1 "$@"; }

harmonics --version
harmonics doctor | sed 's/^/  /'
harmonics graph check /usr/share/harmonics/examples/digits.harp
harmonics devices >/dev/null || die "harmonics-torch does not run"

python3 -c 'import harmonics' || die "Python does not import it"

say "the units are in order"
systemd-analyze verify /lib/systemd/system/harmonics-server.service /lib/systemd/system/harmonics-worker.service

for unit in server worker; do
  for folder in "/etc/harmonics/$unit" "/var/lib/harmonics-$unit"; do
    [ "$(stat -c %U:%a "$folder")" = "harmonics-$unit:700" ] || die "$folder is $(stat -c %U:%a "$folder")"
  done
done
getent passwd harmonics-task >/dev/null || die "there is no user harmonics-task"

# As systemd would: what is marked with + as root, the rest as the unit's user, %H being the machine.
start_unit() {
  eval "$(unit_line "$1" ExecStartPre | sed 's/^+//')"
  line=$(unit_line "$1" ExecStart | sed 's/%H/localhost/g')
  [ "$(unit_line "$1" User)" = "harmonics-$1" ] || die "the unit of the $1 has another user"
  setpriv --reuid "harmonics-$1" --regid "harmonics-$1" --init-groups $line >>"/var/log/harmonics-$1.log" 2>&1 &
  eval "pid_of_$1=$!"
}
until_said() { # COMMAND…: succeeds within a minute
  tries=0
  until "$@" >/tmp/said 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { cat /tmp/said /var/log/harmonics-*.log >&2; die "waited too long for: $*"; }
    sleep 1
  done
}
ready() { admin workers --output json | grep -q '"state": *"ready"'; }
stop_units() {
  kill "$pid_of_worker" "$pid_of_server"
  wait "$pid_of_worker" "$pid_of_server" || die "a unit failed at its end"
}

harmonics server --init /etc/harmonics/server --init-host localhost >/dev/null
cp -r /etc/harmonics/server/hosts/localhost/. /etc/harmonics/worker/
start_unit server
start_unit worker
until_said ready
for unit in server worker; do
  eval "process=\$pid_of_$unit"
  [ "$(stat -c %U "/proc/$process")" = "harmonics-$unit" ] || die "the $unit runs as $(stat -c %U "/proc/$process")"
done
task=$(admin submit --name first --gpus 0 --output quiet -- id -un)
admin wait "$task" --timeout 60
[ "$(admin logs "$task")" = harmonics-worker ] || die "the task ran as '$(admin logs "$task")'"
say "server and worker run as their users, a task ran as harmonics-worker"

stop_units
dpkg -i /harmonics_*-2_*.deb /python3-harmonics_*-2_*.deb >/dev/null
start_unit server
start_unit worker
until_said ready
admin task "$task" --output json | grep -q '"state": *"succeeded"' || die "the upgrade lost task $task"
[ "$(admin logs "$task")" = harmonics-worker ] || die "the upgrade lost the output of task $task"
say "the upgrade kept the store and the output"

stop_units
dpkg --purge python3-harmonics >/dev/null
dpkg --remove harmonics >/dev/null
[ ! -e /usr/bin/harmonics ] || die "remove left the programs"
[ -f /var/lib/harmonics-server/cluster.sqlite ] && [ -f /etc/harmonics/server/server.pem ] || die "remove took the store"
say "remove kept the store"
dpkg --purge harmonics >/dev/null
for left in /var/lib/harmonics-server /var/lib/harmonics-worker /etc/harmonics; do
  [ ! -e "$left" ] || die "purge left $left"
done
say "purge took it"
