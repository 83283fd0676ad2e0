// linear_attention_ours FOLDER METHOD HEADS LENGTH THREADS: see ours.h. q, k, v and out are [HEADS][LENGTH][64].
#include "peers/ours.h"
#include "prepared_methods.h"
#include "rotary/parallel.hpp"

namespace rotary::bench {
namespace {

void run(const Arguments& arguments) {
  const std::int64_t heads = arguments.number(2), length = arguments.number(3);
  const auto read = [&](const char* name) { return arguments.tensor(name, DType::f32, {heads, length, width}); };
  const Filled q = read("q"), k = read("k"), v = read("v"), out = read("q");
  ThreadPool pool(static_cast<int>(arguments.number(4)));
  PreparedMethod method(arguments.word(1));
  method.options.executor = &pool;
  const auto attend = [&] { linear_attention(q, k, v, out, method.options); };
  answer(arguments, {&out}, attend);
}

}  // namespace
}  // namespace rotary::bench

int main(int count, char** words) {
  return rotary::bench::run_peer(count, words, "linear_attention_ours FOLDER METHOD HEADS LENGTH THREADS",
                                 rotary::bench::run);
}
