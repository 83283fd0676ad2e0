#!/bin/sh
# The demo: checks two layers of a real model against its own computation, and draws what the rotation does.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
data=tests/data/smollm2

agree=0
for layer in 00 15; do
  echo "SmolLM2-135M, layer $layer: q, k and v as the model computed them, turned and attended by rotary"
  "$build/rotary" verify "$data/layer-$layer.safetensors" --model "$data/config.json" --layer "${layer#0}" || agree=$?
  echo
done

mkdir -p build/demo
"$build/demo" "$data" build/demo/rotary.svg
echo "picture: build/demo/rotary.svg"
if command -v rsvg-convert > /dev/null; then
  rsvg-convert --zoom 2 build/demo/rotary.svg -o build/demo/rotary.png
  echo "picture: build/demo/rotary.png"
fi
exit "$agree"
