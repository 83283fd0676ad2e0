// Our side of a comparison with a peer, as a program that run.py drives: arguments say what to do, numbers come from files of
// float32. It computes once, writes out.bin, says "ready", and then for every line of input computes again and says how many
// nanoseconds that took.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace rotary::bench {

inline std::vector<float> read_numbers(const std::string& path, std::int64_t count) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  const auto size = static_cast<std::streamsize>(numbers.size() * sizeof(float));
  if (!std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(numbers.data()), size)) {
    std::cerr << path << " must hold " << count << " float32 numbers\n";
    numbers.clear();
  }
  return numbers;
}

inline void write_numbers(const std::string& path, const std::vector<float>& numbers) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(numbers.size() * sizeof(float)));
}

template <class Call>
void answer_with_times(const Call& call) {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begin;
    std::cout << time.count() << std::endl;
  }
}

}  // namespace rotary::bench
