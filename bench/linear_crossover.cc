// From which length linear attention takes less time than softmax attention: every method against our own attention(), in one
// run, one head, one thread, causal, float32, 64 channels and 64 values.
//
//     linear_crossover FOLDER     writes FOLDER/linear-crossover.svg and FOLDER/linear-crossover.json
//
// All methods take turns at every length; the best turn of each counts, in processor time.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "clock.h"
#include "crossover_picture.h"
#include "machine.h"
#include "prepared_methods.h"
#include "rotary/attention.hpp"

namespace rotary::bench {
namespace {

constexpr int turns = 5;
constexpr std::int64_t shortest_length = 16, longest_length = 1 << 20;
constexpr double most_seconds = 0.6;  // of one call; longer ones are left out

struct Method {
  Curve curve;
  std::function<void(const Inputs&)> call;
  bool is_slow = false;
};

void attend_softmax(const Inputs& inputs) {
  static const Rotation rotation = half_rotation(width);
  const AttentionOptions options{.rotation = &rotation, .causal = Causal::top_left};
  attention(inputs.q(), inputs.k(), inputs.v(), inputs.out(), options);
}

std::vector<Method> all_methods() {
  std::vector<Method> methods;
  methods.push_back({{"softmax", {}}, attend_softmax});
  for (const LinearMethod& one : linear_methods) {
    const auto method = std::make_shared<PreparedMethod>(one);
    methods.push_back({{one.name, {}}, [method](const Inputs& inputs) { inputs.attend(method->options); }});
  }
  return methods;
}

/// Of one call, from as many as take half a millisecond.
double seconds_of(const Method& method, const Inputs& inputs, std::int64_t length) {
  const std::int64_t calls = std::max<std::int64_t>(1, 2048 / length);
  const double begin = thread_seconds();
  for (std::int64_t i = 0; i < calls; ++i) method.call(inputs);
  return (thread_seconds() - begin) / static_cast<double>(calls);
}

void measure(std::vector<Method>& methods, std::int64_t length) {
  const Inputs inputs(1, length);
  std::vector<double> best(methods.size(), 1e30);
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < methods.size(); ++i) {
      if (!methods[i].is_slow) best[i] = std::min(best[i], seconds_of(methods[i], inputs, length));
    }
  }
  for (std::size_t i = 0; i < methods.size(); ++i) {
    if (methods[i].is_slow) continue;
    methods[i].curve.samples.push_back({length, best[i] / static_cast<double>(length) * 1e9});
    methods[i].is_slow = 4 * best[i] > most_seconds;
  }
}

std::string json(const std::vector<Curve>& curves) {
  std::string text = "{\"machine\": \"" + machine_words() + "\",\n \"date\": \"" + today() + "\",\n \"curves\": [";
  for (const Curve& curve : curves) {
    text += std::string(&curve == &curves.front() ? "" : ",") + "\n  {\"name\": \"" + curve.name +
            "\", \"crossing\": " + (curve.crossing > 0 ? std::to_string(std::lround(curve.crossing)) : "null") +
            ", \"ns_per_token\": {";
    for (const Sample& sample : curve.samples) {
      text += std::string(&sample == &curve.samples.front() ? "" : ", ") + "\"" + std::to_string(sample.length) +
              "\": " + std::to_string(std::lround(sample.ns));
    }
    text += "}}";
  }
  return text + "\n ]}\n";
}

int run(const std::string& folder) {
  std::vector<Method> methods = all_methods();
  for (std::int64_t length = shortest_length; length <= longest_length; length *= length < 1024 ? 2 : 4) {
    measure(methods, length);
  }
  std::vector<Curve> curves;
  for (Method& method : methods) {
    method.curve.crossing = crossing(methods.front().curve, method.curve);
    curves.push_back(method.curve);
  }
  std::ofstream(folder + "/linear-crossover.json") << json(curves);
  std::ofstream picture(folder + "/linear-crossover.svg");
  picture << crossover_picture(curves,
                               "Causal, one head, 64 channels, float32, one thread, " + machine_words() + ", " + today());
  if (!picture.flush()) {
    std::cerr << "linear_crossover: cannot write to " << folder << "\n";
    return 1;
  }
  std::cout << json(curves);
  return 0;
}

}  // namespace
}  // namespace rotary::bench

int main(int count, char** arguments) { return rotary::bench::run(count > 1 ? arguments[1] : "."); }
