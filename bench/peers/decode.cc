// decode_ours FOLDER DTYPE LENGTH THREADS: see ours.h. One query of 32 heads of 128, q and out [32][1][128], at the position of
// the last of LENGTH cached tokens; k and v [8][LENGTH][128] enter the cache before, and are rotated there.
#include "peers/ours.h"
#include "rotary/kv_cache.hpp"
#include "rotary/parallel.hpp"

namespace rotary::bench {
namespace {

void run(const Arguments& arguments) {
  const DType dtype = arguments.dtype(1);
  const std::int64_t length = arguments.number(2);
  const auto read = [&](const char* name, std::int64_t heads, std::int64_t tokens) {
    return arguments.tensor(name, dtype, {heads, tokens, 128});
  };
  const Filled q = read("q", 32, 1), k = read("k", 8, length), v = read("v", 8, length), out = read("q", 32, 1);
  ThreadPool pool(static_cast<int>(arguments.number(3)));
  const Rotation rotation = half_rotation(128);
  KvCache cache({.num_kv_heads = 8,
                 .head_dim = 128,
                 .dtype = dtype,
                 .key_layout = KeyLayout::lanes,  // as 4 query heads share a KV head
                 .rotation = &rotation,
                 .block_size = 32,
                 .num_blocks = length / 32});
  cache.append(0, k, v);
  const AttentionOptions options{.causal = Causal::bottom_right, .executor = &pool};
  const auto attend = [&] { attention(q, cache, {0}, out, options); };
  answer(arguments, {&out}, attend);
}

}  // namespace
}  // namespace rotary::bench

int main(int count, char** words) {
  return rotary::bench::run_peer(count, words, "decode_ours FOLDER DTYPE LENGTH THREADS", rotary::bench::run);
}
