#!/usr/bin/env bash
# Installs what is missing: install.sh NEED:PACKAGE... where NEED is a command, or a file by its absolute path.
# It does nothing, and needs no network, if everything is there. It starts no service.
set -euo pipefail

missing=()
wanted=()
for pair in "$@"; do
  need=${pair%%:*}
  case $need in
    /*) [ -e "$need" ] && continue ;;
    *) command -v "$need" >/dev/null && continue ;;
  esac
  missing+=("$need")
  wanted+=("${pair#*:}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}; install them with the package manager of this system" \
    "(on Debian the packages are: ${wanted[*]})" >&2
  exit 1
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "missing: ${missing[*]}; as root: apt-get install ${wanted[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi

exec 9<"${BASH_SOURCE[0]}"
flock 9 # apt does not wait for all of its locks, and only the last one may remove the policy below
echo "installing ${wanted[*]}"
# Debian starts the service of a server that it installs, unless this file forbids it for the time being.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap '"${root[@]}" rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null
  "${root[@]}" chmod 755 $policy
fi
apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" </dev/null 9<&-; }
apt update
apt install --no-install-recommends "${wanted[@]}"

for need in "${missing[@]}"; do
  if [ ! -e "$need" ] && ! command -v "$need" >/dev/null; then
    echo "$need is still missing after the installation of ${wanted[*]}" >&2
    exit 1
  fi
done
