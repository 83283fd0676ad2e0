// rotate_ours FOLDER DTYPE LENGTH THREADS: see ours.h. q [32][LENGTH][128] and k [8][LENGTH][128] are turned in place, with a
// table of cosines and sines that is there before; out is q, then k.
#include "rotary/rotate.hpp"
#include "peers/ours.h"
#include "rotary/parallel.hpp"

namespace rotary::bench {
namespace {

void run(const Arguments& arguments) {
  const DType dtype = arguments.dtype(1);
  const std::int64_t length = arguments.number(2);
  const Filled q = arguments.tensor("q", dtype, {32, length, 128}), k = arguments.tensor("k", dtype, {8, length, 128});
  ThreadPool pool(static_cast<int>(arguments.number(3)));
  const Rotation rotation = half_rotation(128);
  const AngleTable table = AngleTable::build(rotation, 0, length);
  const RotateOptions options{.table = &table, .executor = &pool};
  const auto turn = [&] { rotate(q, k, rotation, {}, options); };
  answer(arguments, {&q, &k}, turn);
}

}  // namespace
}  // namespace rotary::bench

int main(int count, char** words) {
  return rotary::bench::run_peer(count, words, "rotate_ours FOLDER DTYPE LENGTH THREADS", rotary::bench::run);
}
