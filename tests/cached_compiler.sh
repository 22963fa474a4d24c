#!/bin/sh
# The C++ compiler of the system, which keeps what it made: test processes compile the parts of the
# native library once, and not each anew.
real=$(command -v c++ || command -v g++ || command -v clang++) || exit 127
kept=$(dirname "$0")/../.pytest_cache/native
main="" made=""
for argument; do
    case $argument in *.cc) main=$argument ;; *.o) made=$argument ;; esac
done
[ -n "$main" ] && [ -n "$made" ] || exec "$real" "$@"
folder=$(dirname "$main")
key=$({
    "$real" --version
    grep -m1 -i '^flags\|^features' /proc/cpuinfo
    printf '%s\n' "$@" | grep -v -e "^$folder/"
    basename "$main"
    cat "$folder"/*.cc "$folder"/*.h
} 2>/dev/null | sha256sum | cut -d ' ' -f 1)
if [ ! -s "$kept/$key.o" ]; then
    mkdir -p "$kept"
    "$real" "$@" || exit
    cp "$made" "$kept/$key.$$" && mv "$kept/$key.$$" "$kept/$key.o" || exit
fi
cp "$kept/$key.o" "$made"
