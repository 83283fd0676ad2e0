// Where queries stand beside their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensors.h"

namespace rotary::cli {

/// As --q-offset or --q-position-ids say; else where the keys do, the last query with the last key where there are more or
/// fewer queries. Refers to the positions of the keys.
class QueryPositions {
 public:
  QueryPositions(const TensorFile& file, const PositionOptions& options, Causal causal, const ConstTensorView& q,
                 const ConstTensorView& k, const ChosenPositions& of_keys);

  const Positions& positions() const { return positions_; }
  std::int64_t length() const { return length_; }  ///< the largest position of queries and keys + 1
  const std::string& description() const { return description_; }

 private:
  void align_at_the_end(Causal causal, std::int64_t num_queries, std::int64_t num_keys);

  std::optional<ChosenPositions> chosen_;
  Positions positions_;
  std::int64_t length_;
  std::string description_;
};

}  // namespace rotary::cli
