// Reading .npz: a zip archive of .npy members (numpy.savez, numpy.savez_compressed).
#pragma once

#include <string>
#include <string_view>

#include "formats/file_contents.h"

namespace rotary {

/// Appends one tensor per member, named like it without ".npy". Members are copied out of the archive: the compressed
/// ones must be, and the stored ones begin where their names happen to end, at addresses that suit no element type.
/// Together they may be 1 GiB, or 16 times the archive where that is more.
void read_npz(std::string_view bytes, const std::string& path, FileContents& contents);

}  // namespace rotary
