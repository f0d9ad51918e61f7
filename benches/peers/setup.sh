#!/bin/sh
# What benches/peers needs beside the Rust toolchain: a C++ compiler, for the libzmq that the zmq crate brings along.
set -eu
if command -v c++ >/dev/null 2>&1; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "no C++ compiler (c++) and no apt-get: install a C++ compiler by hand" >&2
    exit 1
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends g++
