#!/bin/sh
# Every room includes only itself and the rooms below it, and public headers stay light. See docs/design/0001-rooms-and-names.md.
set -eu
cd "$(dirname "$0")/.."

grep -En '^ *# *include' -r include src cli | awk -F '[:"<>]' '
BEGIN {
  below["base"] = "base"
  below["formats"] = "base formats"
  below["kernels"] = "base kernels"
  below["reference"] = "base rotation attention reference"
  below["rotation"] = "base kernels rotation"
  below["attention"] = "base kernels rotation attention"
  below["models"] = "base formats rotation attention models"
  below["tools"] = "base formats reference rotation attention models tools"
  below["cli"] = "base formats reference rotation attention models tools cli"

  # where a public header belongs
  split("dtype error export isa parallel progress tensor version", names, " "); for (i in names) room[names[i]] = "base"
  split("angles frequencies learned_positions position_axes positions rotate rotation sinusoidal xpos", names, " "); for (i in names) room[names[i]] = "rotation"
  split("attention attention_backward feature_map kv_cache linear_attention merge_attention position_bias score_terms shaw", names, " "); for (i in names) room[names[i]] = "attention"
  room["model"] = "models"; room["warning"] = "models"; room["tensor_file"] = "formats"; room["gguf"] = "formats"; room["precision"] = "tools"; room["claims"] = "tools"; room["compare"] = "tools"; room["frequency_file"] = "tools"; room["plot"] = "tools"; room["verify"] = "tools"; room["rotary"] = "cli"

  light = " cassert cstddef cstdint exception initializer_list utility vector "
}
{
  file = $1; included = $4
  part = split(file, path, "/")
  name = path[part]; sub(/[.].*/, "", name)
  if (path[1] == "include") {
    here = room[name]
    if ($0 ~ /</ && index(light, " " included " ") == 0) complain("is not one of the light headers" light)
  } else {
    here = path[1] == "cli" ? "cli" : path[2]
  }
  if (here == "") { complain("is in a file of no room: add it to tests/rooms_test.sh"); next }
  if ($0 ~ /</) next

  part = split(included, path, "/")
  name = path[part]; sub(/[.].*/, "", name)
  there = path[1] == "rotary" ? room[name] : part == 1 ? here : path[1]
  if (index(" " below[here] " ", " " there " ") == 0) complain("reaches up from " here)
}
function complain(why) { print file ":" $2 ": " included " " why; wrong = 1 }
END { if (!wrong) print NR " includes, all downwards"; exit wrong }'
