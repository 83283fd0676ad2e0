// Frequencies as CSV and as .npy.
#include "rotary/frequency_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

#include "rotary/error.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/tensor_file.hpp"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

Rotation partial_rotation() {
  RotationSpec spec;
  spec.head_dim = 10;
  spec.rotary_offset = 2;
  spec.pairing_in = Pairing::interleaved;
  spec.inv_freq = {1, 0.1, 0};
  spec.axis = {0, 1, 1};
  spec.amplitude = 1.25;
  return Rotation(spec);
}

std::vector<std::vector<std::string>> rows_of(const std::vector<char>& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(std::string(csv.begin(), csv.end()));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

TEST(FrequencyFile, HasALinePerPair) {
  const auto rows = rows_of(frequencies_csv(partial_rotation()));
  using Row = std::vector<std::string>;
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], (Row{"pair", "channel_u", "channel_v", "inv_freq", "wavelength", "axis", "amplitude"}));
  EXPECT_EQ(rows[1], (Row{"0", "2", "3", "1", "6.283185307179586", "0", "1.25"}));
  EXPECT_EQ(rows[2], (Row{"1", "4", "5", "0.1", "62.83185307179586", "1", "1.25"}));
  EXPECT_EQ(rows[3], (Row{"2", "6", "7", "0", "inf", "1", "1.25"}));
}

TEST(FrequencyFile, ReadsBackToTheSameBits) {
  const TemporaryFolder folder;
  RotationSpec spec;
  spec.head_dim = 128;
  spec.pairing_in = Pairing::half;
  spec.inv_freq = default_frequencies(500000, 128).inv_freq;
  const Rotation rotation(spec);

  const auto rows = rows_of(frequencies_csv(rotation));
  for (std::size_t j = 0; j < spec.inv_freq.size(); ++j) {
    EXPECT_EQ(std::strtod(rows[j + 1][3].c_str(), nullptr), spec.inv_freq[j]);
  }
  write_frequencies(folder.path("a.npy").c_str(), rotation);
  const TensorFile file(folder.path("a.npy").c_str());
  const StoredTensor& stored = file.at("");
  ASSERT_EQ(stored.dtype, DType::f64);
  ASSERT_EQ(stored.shape, (std::vector<std::int64_t>{64}));
  const auto* values = static_cast<const double*>(stored.data);
  EXPECT_EQ(std::vector<double>(values, values + 64), spec.inv_freq);
}

TEST(FrequencyFile, RefusesOtherEndings) {
  try {
    write_frequencies("inv_freq.txt", partial_rotation());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(".csv or .npy"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace rotary
