#!/usr/bin/env bash
# systemd's own checks of the units: no complaint, and no more exposure than now.
set -euo pipefail
root=$1 build=$2
ceiling=1.5  # of 10; lower is better

command -v systemd-analyze >/dev/null || { echo "skipped: systemd-analyze is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root"/systemd/terraned.{service,socket} "$work"
# The program need not be installed for its unit to be checked.
sed -i "s|/usr/bin/terraned|/bin/true|; s|/usr/bin/terranectl|/bin/true|; s|^Documentation=.*||" "$work/terraned.service"
sed -i "s|^Documentation=.*||" "$work/terraned.socket"

# What the units name must be there after an installation.
DESTDIR=$work/installed cmake --install "$build" --prefix /usr >/dev/null
for named in $(sed -n 's|^Exec[A-Za-z]*=\([^ ]*\).*|\1|p; s|^Documentation=file://||p' "$root"/systemd/terraned.{service,socket}) \
  /usr/share/terrane/terraned.yaml /usr/share/terrane/policies; do
  [ -e "$work/installed$named" ] || { echo "$named is not installed"; exit 1; }
done

said=$(systemd-analyze verify --man=no "$work/terraned.service" "$work/terraned.socket" 2>&1 | grep -F "$work" || true)
if [ -n "$said" ]; then echo "systemd-analyze verify complains:"; echo "$said"; exit 1; fi

score=$(systemd-analyze security --offline=true --no-pager "$work/terraned.service" 2>&1 |
  sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\).*/\1/p')
echo "exposure $score, ceiling $ceiling"
[ -n "$score" ] && awk -v s="$score" -v c="$ceiling" 'BEGIN { exit !(s <= c) }'
