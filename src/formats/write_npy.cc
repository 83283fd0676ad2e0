#include <string>

#include "base/fail.h"
#include "formats/atomic_file.h"
#include "formats/npy_header.h"
#include "formats/writing.h"

namespace rotary {
namespace {

/// The same elements with the axes the other way round.
ConstTensorView transposed(const ConstTensorView& view) {
  const std::string letters = view.axes().c_str();
  return view.permuted(Axes(std::string(letters.rbegin(), letters.rend()).c_str()));
}

/// Whether the elements lie row by row without gaps. Axes of length 1 may have any stride, as in NumPy.
bool is_row_major(const ConstTensorView& view) {
  std::int64_t step = 1;
  for (int axis = view.rank() - 1; axis >= 0; --axis) {
    if (view.shape()[axis] != 1 && view.strides()[axis] != step) return view.num_elements() == 0;
    step *= view.shape()[axis];
  }
  return true;
}

}  // namespace

NpyParts npy_parts(const ConstTensorView& view) {
  NpyHeader header;
  header.dtype = view.dtype();
  header.fortran_order = !is_row_major(view) && is_row_major(transposed(view));
  header.shape.assign(view.shape().begin(), view.shape().end());
  return {npy_preamble(header), ElementStream(header.fortran_order ? transposed(view) : view)};
}

void write_npy(const char* path, const ConstTensorView& view) {
  check_tensors("write_npy", {{"", view}});
  NpyParts array = npy_parts(view);
  AtomicFile file(path);
  file.write(array.preamble);
  for (std::string_view piece = array.elements.next(); !piece.empty(); piece = array.elements.next()) file.write(piece);
  file.commit();
}

}  // namespace rotary
