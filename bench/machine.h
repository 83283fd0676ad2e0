// What a figure was measured on, and when.
#pragma once

#include <ctime>
#include <fstream>
#include <string>

#include "rotary/isa.hpp"

namespace rotary::bench {

/// The processor's name as the system tells it, and the instruction set in use.
inline std::string machine_words() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, model = "unknown processor";
  while (std::getline(info, line)) {
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  return model + ", " + name(active_isa());
}

inline std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

}  // namespace rotary::bench
