#include "base/fail.h"

#include "base/text.h"

namespace rotary {

void fail(ErrorCode code, const std::string& subject, const std::string& rule) {
  throw Error(code, (one_line(subject) + ": " + one_line(rule)).c_str());
}

}  // namespace rotary
