#include "formats/element_stream.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/fail.h"

namespace rotary {
namespace {

constexpr std::int64_t long_run = 4096;      // bytes from which on copying a run gains nothing
constexpr std::int64_t gather_size = 65536;  // at least as long as any shorter run

}  // namespace

ElementStream::ElementStream(const ConstTensorView& view) : first_(static_cast<const char*>(view.data())) {
  const std::int64_t count = view.num_elements();
  std::int64_t block_bits = bit_size(view.dtype());
  int axis = view.rank() - 1;
  for (; axis >= 0 && count > 0; --axis) {
    const std::int64_t length = view.shape()[axis];
    if (length != 1 && view.strides()[axis] * bit_size(view.dtype()) != block_bits) break;
    block_bits *= length;
  }
  if (block_bits % 8 != 0 || (axis >= 0 && bit_size(view.dtype()) % 8 != 0)) {
    fail_unsupported("write", "elements of ", name(view.dtype()), " must lie densely and fill whole bytes");
  }
  block_size_ = block_bits / 8;
  num_blocks_ = count == 0 ? 0 : count * bit_size(view.dtype()) / block_bits;
  for (; axis >= 0; --axis) {
    outer_.push_back({view.shape()[axis], view.strides()[axis] * (bit_size(view.dtype()) / 8)});
  }
  if (block_size_ < long_run && num_blocks_ > 1) gathered_.resize(gather_size);
  rewind();
}

void ElementStream::rewind() noexcept {
  at_ = first_;
  blocks_left_ = num_blocks_;
  index_.assign(outer_.size(), 0);
}

std::string_view ElementStream::next() noexcept {
  const auto size = static_cast<std::size_t>(block_size_);
  if (blocks_left_ == 0) return {};
  if (gathered_.empty()) {
    const std::string_view run(at_, size);
    step();
    return run;
  }
  std::size_t filled = 0;
  for (; blocks_left_ > 0 && filled + size <= gathered_.size(); filled += size) {
    std::memcpy(gathered_.data() + filled, at_, size);
    step();
  }
  return {gathered_.data(), filled};
}

void ElementStream::step() noexcept {
  --blocks_left_;
  for (std::size_t i = 0; i < outer_.size(); ++i) {
    at_ += outer_[i].stride;
    if (++index_[i] < outer_[i].length) return;
    at_ -= outer_[i].stride * outer_[i].length;
    index_[i] = 0;
  }
}

}  // namespace rotary
