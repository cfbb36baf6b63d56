#!/bin/bash
# Builds the sangam of an earlier commit: previous.sh COMMIT FOLDER leaves FOLDER/sangam.
set -euo pipefail

commit=$1
folder=$2
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
tree=$(mktemp -d)
trap 'git worktree remove --force "$tree" > /dev/null 2>&1 || rm -rf "$tree"' EXIT
git worktree add --detach "$tree" "$commit" > /dev/null
# A folder of its own for what is compiled: the crates of two releases have the same names.
(cd "$tree" && CARGO_TARGET_DIR="$folder/build" cargo build --release --locked --package sangam-app)
cp "$folder/build/release/sangam" "$folder/sangam"
echo "previous: $(git describe --tags --always "$commit") in $folder/sangam"
