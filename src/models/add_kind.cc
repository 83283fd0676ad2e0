// How many sorts of layers a file may ask for.
#include <utility>

#include "base/fail.h"
#include "models/description.h"

namespace rotary {

void add_kind(ModelDescription& model, LayerDescription kind, const std::string& path) {
  const auto pairs_of = [](const LayerDescription& layer) {
    return layer.turning == Turning::rotates ? layer.layout.rotary_dim / 2 : 0;
  };
  std::int64_t num_pairs = pairs_of(kind);
  for (const LayerDescription& known : model.kinds) num_pairs += pairs_of(known);
  if (model.kinds.size() == max_kinds || num_pairs > max_pairs_of_model) {
    fail_unsupported(path, "layers must be of few sorts, at most ", max_kinds, ", with at most ", max_pairs_of_model,
                     " pairs of channels together, got more: ", model.kinds.size() + 1, " sorts with ", num_pairs,
                     " pairs");
  }
  model.kinds.push_back(std::move(kind));
}

}  // namespace rotary
