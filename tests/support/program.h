// The program, as a shell sees it: stdout, stderr and exit code.
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "base/element.h"
#include "rotary/tensor_file.hpp"
#include "support/temporary_folder.h"

namespace rotary {

inline const std::string program = ROTARY_PROGRAM;
inline const std::string data = ROTARY_TEST_DATA;
inline const std::string capture = data + "/smollm2/layer-00.safetensors";
inline const std::string model = " --model " + data + "/smollm2/config.json";

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Result {
  int code;
  std::string out, err;
};

class Program : public testing::Test {
 protected:
  Result run(const std::string& arguments) const {
    return shell("'" + program + "' " + arguments + " > '" + folder_.path("out") + "' 2> '" + folder_.path("err") + "'");
  }
  Result shell(const std::string& command) const {
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(folder_.path("out")),
            contents(folder_.path("err"))};
  }
  /// An error is one sentence on stderr, and nothing on stdout.
  void expect_error(int code, const std::string& arguments, const std::string& words) const {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.err;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_NE(result.err.find("rotary: "), std::string::npos) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << arguments << "\n" << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << "one line: " << result.err;
  }
  std::string made(const std::string& name) const { return folder_.path(name); }

  TemporaryFolder folder_;
};

/// Not a number where an element is none.
inline double largest_difference(const StoredTensor& a, const StoredTensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  double largest = 0;
  for (std::int64_t i = 0; i < a.num_bytes / (bit_size(a.dtype) / 8); ++i) {
    const double difference = std::abs(load_element(a.dtype, a.data, i) - load_element(b.dtype, b.data, i));
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace rotary
