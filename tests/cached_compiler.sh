#!/bin/sh
# A C++ compiler that keeps what it made: test processes build the native library once, not each anew.
# The first argument is the real compiler, the second the folder of libraries; the others are its own.
real=$1 kept=$2
shift 2
main="" made=""
for argument; do
    case $argument in *.cc) main=$argument ;; *.so) made=$argument ;; esac
done
[ -n "$main" ] && [ -n "$made" ] || exec "$real" "$@"
folder=$(dirname "$main")
key=$({
    "$real" --version
    grep -m1 -i '^flags\|^features' /proc/cpuinfo
    printf '%s\n' "$@" | grep -v -e "^$folder/"
    cat "$folder"/*
} 2>/dev/null | sha256sum | cut -d ' ' -f 1)
if [ ! -s "$kept/$key.so" ]; then
    mkdir -p "$kept"
    "$real" "$@" || exit
    cp "$made" "$kept/$key.$$" && mv "$kept/$key.$$" "$kept/$key.so" || exit
fi
cp "$kept/$key.so" "$made"
