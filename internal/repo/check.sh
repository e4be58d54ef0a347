#!/usr/bin/env bash
# Makes targets, one after another: check.sh TARGET... What each says is a block that ends with its time. Those that BESIDE names
# in the environment are made meanwhile, one after another too. They get what the others leave of the processors, and their blocks
# come at the end. After a failure it goes on; it fails when all are made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

read -ra beside <<<"${BESIDE:-}"
work=$(mktemp -d)
failed=()

# block makes a target at a priority.
block() {
  local start=$SECONDS status=0
  echo "== $1"
  nice -n "$2" "${MAKE:-make}" --no-print-directory "$1" || status=$?
  echo "== $1: $((SECONDS - start)) s"
  return $status
}

meanwhile() {
  local target
  for target in ${beside[@]+"${beside[@]}"}; do
    if block "$target" 19 >"$work/$target" 2>&1; then touch "$work/$target.passed"; fi
  done
}

# It has a group of processes of its own, all of which end with this program.
set -m
meanwhile &
set +m
trap 'kill -- -$! 2>/dev/null || true; rm -rf "$work"' EXIT

for target in "$@"; do
  block "$target" 0 || failed+=("$target")
done
start=$SECONDS
wait $! || true
waited=$((SECONDS - start))
for target in ${beside[@]+"${beside[@]}"}; do
  cat "$work/$target"
  [ -e "$work/$target.passed" ] || failed+=("$target")
done
echo "waited $waited s for what was made beside the others"
if [ ${#failed[@]} -ne 0 ]; then
  echo "check failed in: ${failed[*]}"
  exit 1
fi
echo "check passed: $* ${beside[*]-}"
