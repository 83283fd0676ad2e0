// attention_backward_ours FOLDER DTYPE WIDTH LENGTH Q_HEADS KV_HEADS THREADS: see ours.h. The gradients of causal attention with
// the rotation inside, given what the forward pass left; q and dout are [Q_HEADS][LENGTH][WIDTH], k and v
// [KV_HEADS][LENGTH][WIDTH]; out is dq, dk and dv, one after the other.
#include "rotary/attention_backward.hpp"
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
  const Filled q = read("q", q_heads), k = read("k", kv_heads), v = read("v", kv_heads), dout = read("dout", q_heads),
               out = read("q", q_heads), dq = read("q", q_heads), dk = read("k", kv_heads), dv = read("v", kv_heads);
  const Filled lse(DType::f32, "HS", {q_heads, length}, 1);
  ThreadPool pool(static_cast<int>(arguments.number(6)));
  const Rotation rotation = half_rotation(width);
  const AttentionOptions options{.rotation = &rotation, .causal = Causal::top_left, .lse = lse, .executor = &pool};
  attention(q, k, v, out, options);
  const auto differentiate = [&] { attention_backward(q, k, v, out, dout, {.q = dq, .k = dk, .v = dv}, options); };
  answer(arguments, {&dq, &dk, &dv}, differentiate);
}

}  // namespace
}  // namespace rotary::bench

int main(int count, char** words) {
  return rotary::bench::run_peer(count, words, "attention_backward_ours FOLDER DTYPE WIDTH LENGTH Q_HEADS KV_HEADS THREADS",
                                 rotary::bench::run);
}
