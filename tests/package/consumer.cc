// A program of somebody else that uses an installed rotary: turns two keys, stores them, and reads them back.
#include <cstdio>
#include <rotary/rotary.hpp>

int main() {
  float keys[] = {1, 2, 3, 4, 1, 2, 3, 4};
  const rotary::TensorView k(keys, "SD", {2, 4});
  const rotary::Rotation turn({.head_dim = 4, .pairing_in = rotary::Pairing::half, .inv_freq = {1, 0.01}});
  rotary::rotate(k, turn, {.offset = 1});
  rotary::write_npz("consumer.npz", {{"k", k}});
  const rotary::TensorFile file("consumer.npz");
  const float first = static_cast<const float*>(file.at("k").data)[0];
  std::printf("rotary %s, %s: %.6f\n", ROTARY_VERSION, rotary::name(rotary::active_isa()), first);
  return first > -1.984112f && first < -1.984110f ? 0 : 1;  // cos 1 - 3 sin 1
}
