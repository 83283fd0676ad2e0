#include "rotary/kv_cache.hpp"

#include <limits>
#include <utility>

#include "attention/key_lanes.h"
#include "attention/kv_state.h"
#include "attention/tensor_checks.h"
#include "base/fail.h"
#include "rotation/angles.h"

namespace rotary {
namespace {

constexpr const char* constructor = "KvCache";

void check_from_one(const char* what, std::int64_t number, std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  if (number >= 1 && number <= most) return;
  if (number < 1) fail_argument(constructor, what, " must be at least 1, got ", number);
  fail_argument(constructor, what, " must be at most ", most, ", got ", number);
}

KvCacheOptions checked(KvCacheOptions options) {
  constexpr std::int64_t most_numbers = std::numeric_limits<std::int32_t>::max();  // engines keep them in 32 bits
  if (options.value_dim == 0) options.value_dim = options.head_dim;
  check_from_one("num_kv_heads", options.num_kv_heads);
  check_from_one("head_dim", options.head_dim, max_width);
  check_from_one("value_dim", options.value_dim, max_width);
  check_from_one("num_sequences", options.num_sequences, most_numbers);
  check_from_one("block_size", options.block_size);
  if (options.key_layout == KeyLayout::lanes && options.block_size % key_lanes != 0) {
    fail_argument(constructor, "block_size must be a multiple of ", key_lanes, " where keys are lanes, got ",
                  options.block_size);
  }
  check_from_one("num_blocks", options.num_blocks, most_numbers);
  if (options.window_left < -1) {
    fail_argument(constructor, "window_left must be -1 or at least 0, got ", options.window_left);
  }
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    if (options.dtype == dtype) return options;
  }
  fail_argument(constructor, "dtype must be float32, float16, bfloat16 or int8, got ", name(options.dtype));
}

int num_axes_of(const KvCacheOptions& options) {
  if (options.rotation == nullptr) return 1;
  if (options.rotation->head_dim() != options.head_dim) {
    fail_argument(constructor, "head_dim must be the rotation's, got ", options.head_dim, " and ",
                  options.rotation->head_dim());
  }
  const AngleRows can_express(constructor, *options.rotation, options.precision);
  return options.rotation->num_axes();
}

std::int32_t checked_block(const char* who, const KvCacheOptions& options, std::int64_t block) {
  if (block < 0 || block >= options.num_blocks) {
    fail_argument(who, "a block must be 0 to ", options.num_blocks - 1, ", got ", block);
  }
  return static_cast<std::int32_t>(block);
}

}  // namespace

KvState::KvState(const KvCacheOptions& given, int num_axes)
    : options(given), blocks(constructor, given, num_axes), sequences(static_cast<std::size_t>(given.num_sequences)) {
  if (given.rotation != nullptr) options.rotation = &rotation.emplace(*given.rotation);
}

KvSequence& KvState::sequence(const char* operation, std::int64_t n) {
  if (n < 0 || n >= options.num_sequences) {
    fail_argument(operation, "a sequence must be 0 to ", options.num_sequences - 1, ", got ", n);
  }
  return sequences[static_cast<std::size_t>(n)];
}

void KvState::check_tokens(const char* operation, const KvSequence& sequence, std::int64_t begin, std::int64_t end) const {
  if (0 <= begin && begin <= end && end <= sequence.num_tokens) return;
  fail_argument(operation, "begin and end must satisfy 0 <= begin <= end <= num_tokens, got ", begin, ", ", end, " and ",
                sequence.num_tokens);
}

void KvState::check_free(const char* operation, std::int64_t needed, std::int64_t available) const {
  if (needed <= available) return;
  fail(ErrorCode::exhausted, operation, sentence("needs free blocks, ", needed, " of them, got ", available));
}

std::int64_t KvState::num_shared(const KvSequence& sequence, std::int64_t first, std::int64_t end) const noexcept {
  return std::count_if(sequence.blocks.begin() + first, sequence.blocks.begin() + end,
                       [&](std::int32_t block) { return blocks.is_shared(block); });
}

void KvState::find_next_position(KvSequence& sequence) const noexcept {
  if (sequence.num_tokens == 0) {
    sequence.next_position = 0;
    return;
  }
  double largest = -std::numeric_limits<double>::infinity();
  for_runs(sequence.blocks, options.block_size, 0, sequence.num_tokens, options.block_size, [&](const KvRun& run) {
    const double* const first = blocks.position(run.block, run.slot);
    largest = std::max(largest, *std::max_element(first, first + run.count * blocks.num_axes()));
  });
  sequence.next_position = largest + 1;
}

KvCache::KvCache(const KvCacheOptions& options) {
  const KvCacheOptions good = checked(options);
  state_ = new KvState(good, num_axes_of(good));
}

KvCache::KvCache(KvCache&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

KvCache& KvCache::operator=(KvCache&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

KvCache::~KvCache() { delete state_; }

std::int64_t KvCache::num_tokens(std::int64_t sequence) const {
  return state_->sequence("KvCache::num_tokens", sequence).num_tokens;
}

std::vector<double> KvCache::positions(std::int64_t sequence) const {
  const KvSequence& s = state_->sequence("KvCache::positions", sequence);
  const KvBlocks& blocks = state_->blocks;
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(s.num_tokens * blocks.num_axes()));
  const std::int64_t block_size = state_->options.block_size;
  for_runs(s.blocks, block_size, 0, s.num_tokens, block_size, [&](const KvRun& run) {
    const double* const first = blocks.position(run.block, run.slot);
    all.insert(all.end(), first, first + run.count * blocks.num_axes());
  });
  return all;
}

double KvCache::next_position(std::int64_t sequence) const {
  return state_->sequence("KvCache::next_position", sequence).next_position;
}

std::vector<std::int32_t> KvCache::block_table(std::int64_t sequence) const {
  return state_->sequence("KvCache::block_table", sequence).blocks;
}

std::int64_t KvCache::num_free_blocks() const noexcept { return state_->blocks.num_free(); }
const KvCacheOptions& KvCache::options() const noexcept { return state_->options; }
std::int64_t KvCache::num_bytes() const noexcept { return state_->blocks.num_bytes(); }

ConstTensorView KvCache::keys(std::int64_t block) const {
  return state_->blocks.keys(checked_block("KvCache::keys", state_->options, block));
}

ConstTensorView KvCache::values(std::int64_t block) const {
  return state_->blocks.values(checked_block("KvCache::values", state_->options, block));
}

ConstTensorView KvCache::key_scales(std::int64_t block) const {
  const std::int32_t n = checked_block("KvCache::key_scales", state_->options, block);
  if (state_->options.dtype != DType::i8) return {};
  return {state_->blocks.key_scale(n, 0, 0), "HS", {state_->options.num_kv_heads, state_->options.block_size}};
}

ConstTensorView KvCache::value_scales(std::int64_t block) const {
  const std::int32_t n = checked_block("KvCache::value_scales", state_->options, block);
  if (state_->options.dtype != DType::i8) return {};
  return {state_->blocks.value_scale(n, 0, 0), "HS", {state_->options.num_kv_heads, state_->options.block_size}};
}

}  // namespace rotary
