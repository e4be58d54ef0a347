#!/bin/sh
# Takes a lock in one command and releases it in another. Where one command is all that runs under the lock, prefer stile run,
# which renews the lock while the command runs.
set -eu

claim=$(stile lock nightly --ttl 10m --reason "example of a shell script") || exit
eval "$claim" # sets token, deadline and handle
echo "the script holds the lock"

# Somebody else does not get it. Processes of this script share its grant, which is in the environment.
status=0
env -i PATH="$PATH" STILE_URL="$STILE_URL" stile run nightly --try -- echo "this does not run" 2>/dev/null || status=$?
echo "another process ends with status $status"

stile renew nightly >/dev/null || exit # before 10 minutes are over, and before each write that matters
[ "$token" -gt 0 ] && echo "each write carries the token"

stile unlock nightly
stile run nightly --try -- echo "the lock is free"
