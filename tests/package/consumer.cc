// A program of somebody else that uses an installed rotary.
#include <cstdint>
#include <cstdio>
#include <rotary/rotary.hpp>

int main() {
  rotary::ThreadPool pool(2);
  std::printf("rotary %s, %s, %d threads\n", ROTARY_VERSION, rotary::name(rotary::active_isa()), pool.concurrency());
}
