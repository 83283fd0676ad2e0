#include "attention/visible_keys.h"

#include <algorithm>
#include <cmath>

namespace rotary {
namespace {

constexpr std::int64_t no_limit = std::int64_t{1} << 60;  // more than any number of tokens, and far from overflow

std::int64_t reach(std::int64_t window) noexcept { return window < 0 ? no_limit : std::min(window, no_limit); }

/// The first of begin … end - 1 for which `holds`, which is false up to there and true from there on; end if none.
template <class Holds>
std::int64_t first_where(std::int64_t begin, std::int64_t end, const Holds& holds) noexcept {
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (holds(middle)) end = middle;
    else begin = middle + 1;
  }
  return begin;
}

/// Whether number(0) … number(count - 1) never fall.
template <class Number>
bool ascend(std::int64_t count, const Number& number) noexcept {
  for (std::int64_t i = 1; i < count; ++i) {
    if (number(i) < number(i - 1)) return false;
  }
  return true;
}

}  // namespace

TokenEntries::TokenEntries(const ConstTensorView& entries, char token_axis) noexcept : view(entries) {
  if (!entries) return;
  row_step = entries.size('B') > 1 ? entries.stride('B') : 0;
  token_step = entries.stride(token_axis);
}

VisibleKeys::VisibleKeys(const AttentionProblem& problem) noexcept
    : p_(problem),
      options_(problem.options),
      padding_(options_.key_padding_mask, problem.token_axis),
      q_documents_(options_.q_document_ids, problem.token_axis),
      k_documents_(options_.k_document_ids, problem.token_axis),
      window_left_(reach(options_.window_left)),
      window_right_(reach(options_.window_right)),
      chunk_size_(static_cast<double>(options_.chunk_size)) {}

AttentionSequence VisibleKeys::sequence(std::int64_t n) const noexcept {
  AttentionSequence s = sequence_tokens(p_, n);
  s.tokens = {0, s.num_keys};
  if (options_.prefix_lengths) {
    const ConstTensorView& lengths = options_.prefix_lengths;
    s.prefix_length = whole_number(lengths, n * lengths.stride(p_.is_packed() ? 'N' : 'B'));
  }
  if (options_.key_padding_mask) {
    while (s.tokens.begin < s.tokens.end && !is_token(s, s.tokens.begin)) ++s.tokens.begin;
    while (s.tokens.begin < s.tokens.end && !is_token(s, s.tokens.end - 1)) --s.tokens.end;
    for (std::int64_t key = s.tokens.begin; key < s.tokens.end && !s.padding_is_scattered; ++key) {
      s.padding_is_scattered = !is_token(s, key);
    }
  }
  if (options_.chunk_size != 0 && !p_.k_positions->is_counted()) {
    s.chunks_are_scattered = !ascend(s.num_keys, [&](std::int64_t key) { return chunk_of_key(s, key); });
  }
  if (options_.k_document_ids) {
    s.documents_are_scattered = !ascend(s.num_keys, [&](std::int64_t key) { return document_of_key(s, key); });
  }
  return s;
}

KeyRange VisibleKeys::range(const AttentionSequence& s, std::int64_t query) const noexcept {
  const std::int64_t diagonal = options_.causal == Causal::bottom_right ? query + s.num_keys - s.num_queries : query;
  std::int64_t begin = std::max(s.tokens.begin, diagonal - window_left_);
  std::int64_t end = std::min(s.tokens.end, diagonal + window_right_ + 1);
  if (options_.causal != Causal::none) end = std::min(end, std::max(diagonal + 1, s.prefix_length));
  if (chunk_size_ != 0 && !s.chunks_are_scattered) {
    const double chunk = chunk_of_query(s, query);
    begin = first_where(begin, end, [&](std::int64_t key) { return chunk_of_key(s, key) >= chunk; });
    end = first_where(begin, end, [&](std::int64_t key) { return chunk_of_key(s, key) > chunk; });
  }
  if (options_.k_document_ids && !s.documents_are_scattered) {
    const std::int64_t document = document_of_query(s, query);
    begin = first_where(begin, end, [&](std::int64_t key) { return document_of_key(s, key) >= document; });
    end = first_where(begin, end, [&](std::int64_t key) { return document_of_key(s, key) > document; });
  }
  return {begin, end};
}

bool VisibleKeys::shows(const AttentionSequence& s, std::int64_t query, std::int64_t key) const noexcept {
  if (s.padding_is_scattered && !is_token(s, key)) return false;
  if (s.chunks_are_scattered && chunk_of_key(s, key) != chunk_of_query(s, query)) return false;
  return !s.documents_are_scattered || document_of_key(s, key) == document_of_query(s, query);
}

bool VisibleKeys::is_token(const AttentionSequence& s, std::int64_t key) const noexcept {
  return static_cast<const bool*>(padding_.view.data())[padding_.element(s.row, s.first_key + key)];
}

double VisibleKeys::chunk_of_query(const AttentionSequence& s, std::int64_t query) const noexcept {
  double position = 0;
  p_.q_positions->read(s.row, s.first_query + query, &position);
  return std::floor(position / chunk_size_);
}

double VisibleKeys::chunk_of_key(const AttentionSequence& s, std::int64_t key) const noexcept {
  double position = 0;
  p_.k_positions->read(s.row, s.first_key + key, &position);
  return std::floor(position / chunk_size_);
}

std::int64_t VisibleKeys::document_of_query(const AttentionSequence& s, std::int64_t query) const noexcept {
  return whole_number(q_documents_.view, q_documents_.element(s.row, s.first_query + query));
}

std::int64_t VisibleKeys::document_of_key(const AttentionSequence& s, std::int64_t key) const noexcept {
  return whole_number(k_documents_.view, k_documents_.element(s.row, s.first_key + key));
}

}  // namespace rotary
