#!/bin/sh
# Builds the stand-in over CUDA: build_cuda.sh FOLDER, which becomes ROCM_PATH. Needs g++, cuda.h and the driver.
set -e
here=$(dirname "$(readlink -f "$0")")
cuda=${CUDA_HOME:-/usr/local/cuda}
driver=$(ldconfig -p | awk '/libcuda.so.1/ {print $NF; exit}')
[ -n "$driver" ] || driver=$cuda/lib64/stubs/libcuda.so
[ -e "$driver" ] || driver=  # where there is none: to see whether it compiles
mkdir -p "$1/lib"
for name in amdhip64 hiprtc rocblas; do
  g++ -shared -fPIC -std=c++17 -O2 -fvisibility=hidden -I"$here/../runtime" -I"$cuda/include" \
    "$here/$name.cpp" ${driver:+"$driver"} -ldl -o "$1/lib/lib$name.so"
done
