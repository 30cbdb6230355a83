#!/bin/sh
# Lists commits that no branch or reflog reaches, newest first: date, hash, subject. Changes nothing.
set -eu
git rev-parse --git-dir >/dev/null
git fsck --unreachable --no-reflogs --no-progress 2>/dev/null |
  awk '$2 == "commit" { print $3 }' |
  while read -r hash; do git log -1 --format='%ci  %h  %s' "$hash"; done |
  sort -r | head -n "${1:-50}"
