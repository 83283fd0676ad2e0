// attention_ours FOLDER DTYPE WIDTH LENGTH Q_HEADS KV_HEADS THREADS: see ours.h. Causal, with the rotation inside; q and out are
// [Q_HEADS][LENGTH][WIDTH], k and v [KV_HEADS][LENGTH][WIDTH].
#include "rotary/attention.hpp"
#include "peers/ours.h"
#include "rotary/parallel.hpp"

namespace rotary::bench {
namespace {

void run(const Arguments& arguments) {
  const DType dtype = arguments.dtype(1);
  const std::int64_t width = arguments.number(2), length = arguments.number(3), q_heads = arguments.number(4),
                     kv_heads = arguments.number(5);
  const auto read = [&](const char* name, std::int64_t heads) {
    return arguments.tensor(name, dtype, {heads, length, width});
  };
  const Filled q = read("q", q_heads), k = read("k", kv_heads), v = read("v", kv_heads), out = read("q", q_heads);
  ThreadPool pool(static_cast<int>(arguments.number(6)));
  const Rotation rotation = half_rotation(width);
  const AttentionOptions options{.rotation = &rotation, .causal = Causal::top_left, .executor = &pool};
  const auto attend = [&] { attention(q, k, v, out, options); };
  answer(arguments, {&out}, attend);
}

}  // namespace
}  // namespace rotary::bench

int main(int count, char** words) {
  return rotary::bench::run_peer(count, words, "attention_ours FOLDER DTYPE WIDTH LENGTH Q_HEADS KV_HEADS THREADS",
                                 rotary::bench::run);
}
