// linear_attention_ours FOLDER METHOD HEADS LENGTH THREADS: see ours.h. q, k, v and out are [HEADS][LENGTH][64].
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "linear_methods.h"
#include "peers/ours.h"
#include "rotary/error.hpp"
#include "rotary/parallel.hpp"

namespace rotary::bench {
namespace {

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) {
    std::cerr << "linear_attention_ours FOLDER METHOD HEADS LENGTH THREADS\n";
    return 2;
  }
  const std::string& folder = arguments[0];
  const std::int64_t heads = std::atoll(arguments[2].c_str()), length = std::atoll(arguments[3].c_str());
  const std::int64_t count = heads * length * width;
  const std::vector<float> q = read_numbers(folder + "/q.bin", count), k = read_numbers(folder + "/k.bin", count),
                           v = read_numbers(folder + "/v.bin", count);
  if (q.empty() || k.empty() || v.empty()) return 1;
  std::vector<float> out(q.size());
  const auto view = [&](const std::vector<float>& x) { return ConstTensorView(x.data(), "HSD", {heads, length, width}); };
  ThreadPool pool(std::atoi(arguments[4].c_str()));
  LinearMethod method(arguments[1]);
  method.options.executor = &pool;
  const auto attend = [&] {
    linear_attention(view(q), view(k), view(v), {out.data(), "HSD", {heads, length, width}}, method.options);
  };
  attend();
  write_numbers(folder + "/out.bin", out);
  answer_with_times(attend);
  return 0;
}

}  // namespace
}  // namespace rotary::bench

int main(int count, char** arguments) {
  try {
    return rotary::bench::run({arguments + 1, arguments + count});
  } catch (const rotary::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
