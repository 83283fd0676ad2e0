// Do two models turn alike? For two versions of a config, a checkpoint and its GGUF, a model and its fork.
//
//     const auto comparison = rotary::compare(rotary::read_model("config.json"), rotary::read_model("model.gguf"));
//     if (!comparison.same()) …
//
// docs/compare.md says what counts, and how far numbers may lie apart.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/model.hpp"

namespace rotary {

struct ComparisonContents;

/// What comes of a difference.
enum class Effect : std::uint8_t {
  nothing,    ///< said in another way, computed alike
  attention,  ///< scores, or which keys are seen; cached keys are the same
  keys,       ///< rotated keys: what one model cached is of no use to the other
};

ROTARY_API const char* name(Effect effect) noexcept;  ///< "nothing", "attention", "keys"

struct Difference {
  Effect effect;
  const char* name;  ///< "rule", "base", "pairing", "inv_freq", "softmax_scale", … as in provenance
  const char* a;     ///< what each of them has, and where that came from: "10000 (config.json: rope_theta)"
  const char* b;
  const char* detail;  ///< more, as a clause; often ""
};

/// Layers that are alike within each of the models, so that they differ in the same things.
struct ComparedLayers {
  const char* part;  ///< of a composite model: "vision_config"; "" for the model itself
  std::vector<LayerRange> layers;
  std::vector<Difference> differences;
  /// The first position, counted from 0, at which a rotated key of one model differs from the other's by more than a step of
  /// bfloat16: in some pair, by more than 2^-8 of that pair's rotated length. Pairs are taken by their channels; where the
  /// pairing differs, by their index, as with weights whose rows were permuted. Numbers within the tolerance count as equal.
  /// -1: nowhere up to 2^53, or there are no pairs to compare.
  std::int64_t first_position;
  std::int64_t first_pair;  ///< of model a (of model b where a has none), or -1
  /// Where frequencies depend on the length: of the call in which first_position is meant; else 0.
  std::int64_t length;
};

/// What compare() found. Holds its own text; the models may go.
class ROTARY_API Comparison {
 public:
  Comparison(Comparison&& other) noexcept;
  Comparison& operator=(Comparison&& other) noexcept;
  ~Comparison();

  bool same() const noexcept;       ///< no difference has an effect
  bool same_keys() const noexcept;  ///< none has an effect on keys
  /// Whether the same pairs turn alike in another place: weights whose rows of q and k were permuted.
  bool only_pairing_differs() const noexcept;
  /// Relative: numbers that lie closer are taken as the same. 2^-23 where a GGUF is involved, which stores float32; else 2^-40.
  double tolerance() const noexcept;
  /// The smallest first_position of all layers, or -1.
  std::int64_t first_position() const noexcept;

  const std::vector<Difference>& differences() const noexcept;  ///< of the models as wholes: the number of layers, …
  const std::vector<ComparedLayers>& layers() const noexcept;   ///< all that both have, also those without a difference

 private:
  friend ROTARY_API Comparison compare(const ModelRotations& a, const ModelRotations& b);
  explicit Comparison(ComparisonContents* contents) noexcept : contents_(contents) {}
  ComparisonContents* contents_;
};

/// Layer by layer, then part by part (those that both have). Rules that depend on the length are compared at the lengths that
/// the models state, one token beyond, and at four times those.
ROTARY_API Comparison compare(const ModelRotations& a, const ModelRotations& b);

}  // namespace rotary
