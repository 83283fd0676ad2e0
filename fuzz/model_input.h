// What the targets for model files share: build the model and use all of it.
#pragma once

#include <string>
#include <utility>

#include "base/fail.h"
#include "models/description.h"

namespace rotary {

/// Reads whatever an application would read from a model. Any Error is an answer.
inline void use(ModelDescription description) {
  const ModelRotations model = build_model(std::move(description));
  for (const LayerGroup& group : model.groups()) {
    if (!group.layer.rotates()) continue;
    const Rotation rotation = group.layer.rotation(1);
    if (rotation.num_pairs() < 1 || rotation.rotary_dim() > rotation.head_dim()) throw "a rotation that cannot be";
    for (const double inv_freq : rotation.inv_freq()) {
      if (!(inv_freq == inv_freq)) throw "a NaN among the frequencies";
    }
  }
}

template <class Read>
int answer(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.what()[0] == '\0') throw "an Error without a sentence";
  }
  return 0;
}

}  // namespace rotary
