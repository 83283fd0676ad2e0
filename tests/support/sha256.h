// SHA-256 (FIPS 180-4), to compare bytes with hashes that other programs left beside the data.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rotary {
namespace sha256_detail {

/// The first 32 bits of the fraction of root(p), for the first primes p: where the standard takes its constants from.
/// long double holds them exactly enough: 64 bits, of which at most 3 stand before the point.
template <std::size_t Count, class Root>
std::array<std::uint32_t, Count> fractions_of_roots(Root root) {
  std::array<std::uint32_t, Count> constants{};
  std::size_t found = 0;
  for (int candidate = 2; found < Count; ++candidate) {
    bool is_prime = true;
    for (int divisor = 2; divisor * divisor <= candidate; ++divisor) is_prime &= candidate % divisor != 0;
    if (!is_prime) continue;
    const long double value = root(static_cast<long double>(candidate));
    constants[found++] = static_cast<std::uint32_t>((value - std::floor(value)) * 4294967296.0L);
  }
  return constants;
}

inline void add_block(std::array<std::uint32_t, 8>& hash, std::string_view block) {
  static const auto constants = fractions_of_roots<64>([](long double x) { return std::cbrt(x); });
  std::uint32_t w[64];
  for (std::size_t i = 0; i < 64; ++i) {
    if (i < 16) {
      w[i] = 0;
      for (std::size_t j = 0; j < 4; ++j) w[i] = w[i] << 8 | static_cast<std::uint8_t>(block[4 * i + j]);
    } else {
      const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
  }
  auto [a, b, c, d, e, f, g, h] = hash;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + constants[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::uint32_t sums[] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) hash[i] += sums[i];
}

}  // namespace sha256_detail

/// In 64 hexadecimal digits.
inline std::string sha256(std::string_view bytes) {
  auto hash = sha256_detail::fractions_of_roots<8>([](long double x) { return std::sqrt(x); });
  std::string padded(bytes);
  padded += '\x80';
  while (padded.size() % 64 != 56) padded += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(std::uint64_t{bytes.size()} * 8 >> shift & 0xFF);
  for (std::size_t i = 0; i < padded.size(); i += 64) {
    sha256_detail::add_block(hash, std::string_view(padded).substr(i, 64));
  }
  std::string text;
  for (const std::uint32_t word : hash) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  }
  return text;
}

}  // namespace rotary
