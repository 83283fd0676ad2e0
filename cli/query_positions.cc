#include "query_positions.h"

#include <algorithm>

#include "base/fail.h"

namespace rotary::cli {

QueryPositions::QueryPositions(const TensorFile& file, const PositionOptions& options, Causal causal,
                               const ConstTensorView& q, const ConstTensorView& k, const ChosenPositions& of_keys)
    : positions_(of_keys.positions()), length_(of_keys.length()), description_(of_keys.description()) {
  if (options.given()) {
    chosen_.emplace(file, options, q);
    positions_ = chosen_->positions();
    length_ = std::max(length_, chosen_->length());
    description_ = "keys " + of_keys.description() + "; queries " + chosen_->description();
  } else if (q.size('S') != k.size('S')) {
    align_at_the_end(causal, q.size('S'), k.size('S'));
    description_ = "keys " + of_keys.description() + "; the last query with the last key";
  }
}

void QueryPositions::align_at_the_end(Causal causal, std::int64_t num_queries, std::int64_t num_keys) {
  const std::string lengths = std::to_string(num_queries) + " queries and " + std::to_string(num_keys) + " keys";
  if (causal != Causal::bottom_right) {
    fail_argument("attend", "say with --q-offset or --q-position-ids where the queries stand: there are ", lengths,
                  ", and only bottom_right puts the last query with the last key");
  }
  if (!positions_.position_ids) {
    positions_.offset += num_keys - num_queries;
    return;
  }
  if (num_queries > num_keys) {
    fail_argument("attend", "say with --q-position-ids where the queries stand: there are ", lengths,
                  " with a position id each");
  }
  positions_.position_ids = positions_.position_ids.slice('S', num_keys - num_queries, num_keys);
}

}  // namespace rotary::cli
