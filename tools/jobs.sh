#!/bin/sh
# How many compilers to run at once: one per core, as long as each has 1.5 GiB of the memory that is free now.
cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
free=$(awk '/^MemAvailable/ { print int($2 / 1572864) }' /proc/meminfo 2>/dev/null)
[ "${free:-$cores}" -lt "$cores" ] && cores=$free
[ "$cores" -lt 1 ] && cores=1
echo "$cores"
