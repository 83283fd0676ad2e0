// Our side of a comparison with a peer, as a program that run.py drives: arguments say what to do, numbers come from files of
// float32. It computes once, writes its results, says "ready", and then for every line of input computes again and says how
// many nanoseconds that took.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/element.h"
#include "base/fail.h"
#include "filled.h"
#include "half_rotation.h"
#include "rotary/error.hpp"

namespace rotary::bench {

inline std::vector<float> read_numbers(const std::string& path, std::int64_t count) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  const auto size = static_cast<std::streamsize>(numbers.size() * sizeof(float));
  if (!std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(numbers.data()), size)) {
    fail_file(path, "must hold ", count, " float32 numbers");
  }
  return numbers;
}

inline void write_numbers(const std::string& path, const std::vector<float>& numbers) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(numbers.size() * sizeof(float)));
}

/// A tensor from a file, its numbers rounded to `dtype`.
inline Filled read_tensor(const std::string& path, DType dtype, const char* axes,
                          std::initializer_list<std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return {dtype, axes, shape, read_numbers(path, count)};
}

/// One after the other, as float32.
inline void write_tensors(const std::string& path, std::initializer_list<const Filled*> tensors) {
  std::vector<float> numbers;
  for (const Filled* tensor : tensors) {
    const ConstTensorView view = *tensor;
    for (std::int64_t i = 0; i < view.num_elements(); ++i)
      numbers.push_back(static_cast<float>(load_element(view.dtype(), tensor->data(), i)));
  }
  write_numbers(path, numbers);
}

/// The arguments of a program: a folder for numbers, then words and whole numbers, by their place.
class Arguments {
 public:
  Arguments(int count, char** words) : words_(words + 1, words + count) {}
  std::size_t size() const { return words_.size(); }
  const std::string& word(std::size_t place) const { return words_[place]; }
  std::int64_t number(std::size_t place) const { return std::atoll(words_[place].c_str()); }
  DType dtype(std::size_t place) const { return words_[place] == "bfloat16" ? DType::bf16 : DType::f32; }
  std::string path(const std::string& name) const { return words_[0] + "/" + name + ".bin"; }
  /// NAME.bin of the folder: heads, tokens, channels.
  Filled tensor(const std::string& name, DType dtype, std::initializer_list<std::int64_t> shape) const {
    return read_tensor(path(name), dtype, "HSD", shape);
  }

 private:
  std::vector<std::string> words_;
};

/// Computes once, writes the results to out.bin, and then says how long it takes, as often as asked.
template <class Call>
void answer(const Arguments& arguments, std::initializer_list<const Filled*> results, const Call& call) {
  call();
  write_tensors(arguments.path("out"), results);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begin;
    std::cout << time.count() << std::endl;
  }
}

/// main() of a program: `run` with its arguments, which must be as many as `usage` names.
template <class Run>
int run_peer(int count, char** words, const std::string& usage, const Run& run) {
  const Arguments arguments(count, words);
  std::size_t wanted = 0;
  for (const char c : usage) wanted += c == ' ' ? 1 : 0;
  if (arguments.size() != wanted) {
    std::cerr << usage << "\n";
    return 2;
  }
  try {
    run(arguments);
    return 0;
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

}  // namespace rotary::bench
