#!/usr/bin/env bash
# Adds to the number in a file, under a lock, with curl: count.sh NAME FILE TIMES SERVER...
# It follows docs/serve/http.md: the same request goes to one server after the other until one answers.
set -uo pipefail
name=$1 file=$2 times=$3
shift 3
servers=("$@")
umask 077
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
at=0

# ask METHOD HEADER-FILE QUERY: prints the service's answer. What has no code, handle or released came from nobody, or a proxy.
ask() {
  local answer
  for _ in {1..200}; do
    answer=$(curl -sS --max-time 8 -X "$1" -H "@$dir/$2" "${servers[at % ${#servers[@]}]}/v1/locks/$name$3" 2>/dev/null)
    case $(jq -r '.outcome // .handle // .released // "none"' 2>/dev/null <<<"$answer") in
      none | '' | unsent | unknown) at=$((at + 1)) ;;
      *) echo "$answer"; return ;;
    esac
  done
  echo "no server answers" >&2
  exit 1
}

for ((i = 0; i < times; i++)); do
  echo "Stile-Handle: $(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >"$dir/handle"
  while :; do
    answer=$(ask PUT handle '?wait=6s&ttl=30s') || exit 1
    handle=$(jq -r '.handle // ""' <<<"$answer")
    if [ "$handle" ]; then
      echo "Stile-Handle: $handle" >"$dir/handle"
    else # the place is lost: begin again with a new id
      echo "Stile-Handle: $(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >"$dir/handle"
    fi
    [ "$(jq -r '.valid_ms // ""' <<<"$answer")" ] && break
  done
  number=$(<"$file")
  echo $((number + 1)) >"$file"
  ask DELETE handle '' >/dev/null || exit 1
done
