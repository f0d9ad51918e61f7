#!/bin/sh
# Copies a finished event file into a directory, and compares the copy:
#
#   [hooks]
#   file_closed = ["/opt/daq/upload.sh", "/mnt/archive"]
#
# evbd calls it again after an exit code other than 0, so a file may come twice.
set -eu
archive=$1
file=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["path"])')
name=$(basename "$file")
part="$archive/.$name.part"
cp "$file" "$part"
sync "$part"
sum=$(sha256sum < "$file")
if [ "$(sha256sum < "$part")" != "$sum" ]; then
    echo "the copy of $file in $archive differs from the original" >&2
    exit 1
fi
# Whoever reads the archive sees whole files only.
mv "$part" "$archive/$name"
echo "${sum%% *}  $name" > "$archive/$name.sha256"
