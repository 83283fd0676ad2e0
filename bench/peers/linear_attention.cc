// linear_attention_ours FOLDER METHOD HEADS LENGTH THREADS: see ours.h. q, k, v and out are [HEADS][LENGTH][64].
#include "linear_methods.h"
#include "peers/ours.h"
#include "rotary/parallel.hpp"

namespace rotary::bench {
namespace {

void run(const Arguments& arguments) {
  const std::string& folder = arguments.word(0);
  const std::int64_t heads = arguments.number(2), length = arguments.number(3);
  const auto read = [&](const char* name) { return read_tensor(folder + name, DType::f32, "HSD", {heads, length, width}); };
  const Filled q = read("/q.bin"), k = read("/k.bin"), v = read("/v.bin"), out = read("/q.bin");
  ThreadPool pool(static_cast<int>(arguments.number(4)));
  LinearMethod method(arguments.word(1));
  method.options.executor = &pool;
  const auto attend = [&] { linear_attention(q, k, v, out, method.options); };
  attend();
  write_tensors(folder + "/out.bin", {&out});
  answer_with_times(attend);
}

}  // namespace
}  // namespace rotary::bench

int main(int count, char** words) {
  return rotary::bench::run_peer(count, words, "linear_attention_ours FOLDER METHOD HEADS LENGTH THREADS",
                                 rotary::bench::run);
}
