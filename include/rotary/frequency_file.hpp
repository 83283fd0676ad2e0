// A rotation's frequencies in a file, for a spreadsheet or for NumPy.
#pragma once

#include <vector>

#include "rotary/export.hpp"
#include "rotary/rotation.hpp"

namespace rotary {

/// Text with a line per pair under the heading
///     pair,channel_u,channel_v,inv_freq,wavelength,axis,amplitude
/// Channels are those that are read, counted from the start of the head; wavelength is 2 pi / |inv_freq| positions, inf for a
/// pair at rest. Numbers read back to the same bits.
ROTARY_API std::vector<char> frequencies_csv(const Rotation& rotation);

/// By the path's ending: .csv as above; .npy inv_freq alone, float64 of shape [num_pairs]. Writes beside the target and
/// renames. Errors: Error (invalid_argument) for another ending; (invalid_file) when the file cannot be written.
ROTARY_API void write_frequencies(const char* path, const Rotation& rotation);

}  // namespace rotary
