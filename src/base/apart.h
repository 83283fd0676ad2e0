// What an operation writes must not change what it still reads.
#pragma once

#include <cassert>
#include <cstdint>

#include "rotary/tensor.hpp"

namespace rotary {

/// The bytes between which all elements of a view lie; none where it has no element.
struct MemoryRange {
  std::uintptr_t begin, end;
};

MemoryRange memory_range(const ConstTensorView& view) noexcept;

inline bool meet(const MemoryRange& a, const MemoryRange& b) noexcept { return a.end > b.begin && b.end > a.begin; }

/// A view, as errors name it.
struct NamedView {
  const char* name;
  const ConstTensorView* view;
  MemoryRange range;
};

inline NamedView named(const char* name, const ConstTensorView& view) noexcept { return {name, &view, memory_range(view)}; }

/// A few views that are given, to be held against one that is written after another.
class NamedViews {
 public:
  void add(const NamedView& view) noexcept { next() = view; }
  /// Nothing, where the view is not given.
  void add(const char* name, const ConstTensorView& view) noexcept {
    if (view) add_given(name, view);
  }

  const NamedView* begin() const noexcept { return views_; }
  const NamedView* end() const noexcept { return views_ + count_; }

 private:
  NamedView& next() noexcept {
    assert(count_ < most);
    return views_[count_++];
  }
  void add_given(const char* name, const ConstTensorView& view) noexcept;

  static constexpr int most = 20;
  NamedView views_[most];
  int count_ = 0;
};

/// The rest of check_apart(), for ranges that meet.
void check_elements_apart(const char* operation, const NamedView& written, const NamedView& read);

/// Throws Error (invalid_argument), in the name of `operation`, where the two views share memory. One that is not given
/// shares none.
inline void check_apart(const char* operation, const NamedView& written, const NamedView& read) {
  if (meet(written.range, read.range)) check_elements_apart(operation, written, read);
}
inline void check_apart(const char* operation, const char* written_name, const ConstTensorView& written,
                        const char* read_name, const ConstTensorView& read) {
  if (read) check_apart(operation, named(written_name, written), named(read_name, read));
}

}  // namespace rotary
