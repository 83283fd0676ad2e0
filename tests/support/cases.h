// The lists of good and malformed files that lie beside the files.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"
#include "support/file_bytes.h"

namespace rotary {

/// The entries of FOLDER/cases.json that are to be accepted, or refused, and whose file's name ends so.
inline std::vector<nlohmann::json> cases(const std::string& folder, const std::string& expect, const std::string& ending) {
  std::vector<nlohmann::json> chosen;
  const auto all = nlohmann::json::parse(file_bytes(folder + "/cases.json"));
  for (const auto& entry : all.at("cases")) {
    if (entry.at("expect") == expect && entry.at("file").get<std::string>().ends_with(ending)) chosen.push_back(entry);
  }
  return chosen;
}

/// Every malformed file of the folder is refused with a sentence that holds what `rules` says for it; `rules` names them
/// all, and no other. Those in `accepted` are read.
inline void expect_refusals(const std::string& folder, const std::string& ending,
                            const std::map<std::string, std::string>& rules, const std::set<std::string>& accepted = {}) {
  std::set<std::string> listed;
  for (const nlohmann::json& entry : cases(folder, "refuse", ending)) {
    const std::string file = entry.at("file"), path = folder + "/" + file;
    listed.insert(file);
    if (accepted.contains(file)) {
      EXPECT_TRUE(entry.value("or_accept", false)) << file;
      EXPECT_NO_THROW(TensorFile(path.c_str())) << file;
      continue;
    }
    ASSERT_TRUE(rules.contains(file)) << file << " has no rule in the test";
    const std::string said = error_sentence(ErrorCode::invalid_file, [&] { TensorFile(path.c_str()); });
    EXPECT_NE(said.find(rules.at(file)), std::string::npos) << file << " (" << entry.at("rule") << "): " << said;
    EXPECT_TRUE(said.starts_with(folder)) << "names no path: " << said;
  }
  EXPECT_EQ(listed.size(), rules.size() + accepted.size());
}

}  // namespace rotary
