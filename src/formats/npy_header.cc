#include "formats/npy_header.h"

#include <algorithm>
#include <charconv>

#include "base/component.h"
#include "base/fail.h"
#include "base/text.h"
#include "formats/layout.h"

namespace rotary {
namespace {

struct Spelling {
  DType dtype;
  std::string_view kind_and_size;
};

// NumPy has no bfloat16: ml_dtypes saves its bits as two bytes of "void".
constexpr Spelling spellings[] = {
    {DType::f64, "f8"}, {DType::f32, "f4"}, {DType::f16, "f2"},     {DType::bf16, "V2"}, {DType::i64, "i8"},
    {DType::i32, "i4"}, {DType::i16, "i2"}, {DType::i8, "i1"},      {DType::u64, "u8"},  {DType::u32, "u4"},
    {DType::u16, "u2"}, {DType::u8, "u1"},  {DType::boolean, "b1"}, {DType::c64, "c8"},  {DType::c128, "c16"},
};

class Parser {
 public:
  Parser(std::string_view literal, const std::string& where) : rest_(literal), where_(where) {}

  NpyHeader parse() {
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !has_descr) {
        has_descr = true;
        descr();
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header_.fortran_order = boolean();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        shape();
      } else {
        refuse("must have the keys descr, fortran_order and shape once and no other, got ", in_quotes(key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) refuse("must end after the dictionary, got ", here());
    for (const auto& [present, key] : {std::pair(has_descr, "descr"), {has_order, "fortran_order"}, {has_shape, "shape"}}) {
      if (!present) refuse("must have the key ", key);
    }
    return header_;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... rule) const {
    fail_file(where_, ".npy header ", rule...);
  }

  /// The place that was reached, for errors.
  std::string here() const {
    constexpr std::size_t shown = 24;
    return in_quotes(rest_.substr(0, shown));
  }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool accept(char wanted) {
    skip_space();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) refuse("must be a dictionary: expected ", wanted, " at ", here());
  }

  std::string_view string() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') refuse("must be a dictionary: expected a string at ", here());
    const std::size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) refuse("must be a dictionary: a string must end, got ", here());
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return value;
      }
    }
    refuse("must say True or False for fortran_order, got ", here());
  }

  void descr() {
    skip_space();
    if (rest_.starts_with('[') || rest_.starts_with('(')) {
      refuse("must name one plain dtype, got a structured one: ", here());
    }
    const std::string_view text = string();
    const char order = text.empty() ? '\0' : text.front();
    const std::string_view kind_and_size = text.substr(text.empty() ? 0 : 1);
    if (text.find('O') != text.npos) {
      refuse("must not name the dtype object: such arrays are pickles, which are never read, got ", in_quotes(text));
    }
    for (const Spelling& spelling : spellings) {
      if (spelling.kind_and_size != kind_and_size) continue;
      const bool no_order_needed = component_size(spelling.dtype) == 1 || spelling.dtype == DType::bf16;
      if (order == '<' || (order == '|' && no_order_needed) || (order == '>' && spelling.dtype != DType::bf16)) {
        header_.dtype = spelling.dtype;
        header_.big_endian = order == '>';
        return;
      }
    }
    refuse("must name a dtype that rotary knows, such as '<f4', got ", in_quotes(text));
  }

  void shape() {
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) refuse("must have a shape such as (2, 3): expected ) at ", here());
      header_.shape.push_back(length());
      if (header_.shape.size() > max_stored_rank) refuse("must have a shape of at most ", max_stored_rank, " axes");
      comma = accept(',');
    }
    if (header_.shape.size() == 1 && !comma) refuse("must have a tuple as shape: (n,) with its comma");
  }

  std::int64_t length() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error == std::errc::result_out_of_range) {
      refuse("must have a shape whose size is representable, got ", here());
    }
    if (error != std::errc() || value < 0) refuse("must have a shape of whole numbers >= 0, got ", here());
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // Python 2 wrote long integers so
    return value;
  }

  std::string_view rest_;
  const std::string& where_;
  NpyHeader header_;
};

/// Python's repr of a tuple: (), (5,), (2, 3).
std::string tuple(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

NpyHeader parse_npy_header(std::string_view literal, const std::string& where) { return Parser(literal, where).parse(); }

std::string npy_preamble(const NpyHeader& header) {
  const auto* const spelling =
      std::find_if(std::begin(spellings), std::end(spellings), [&](const Spelling& s) { return s.dtype == header.dtype; });
  if (spelling == std::end(spellings)) fail_unsupported(".npy", "has no name for the dtype ", name(header.dtype));
  const bool one_byte = component_size(header.dtype) == 1;

  std::string literal = "{'descr': '";
  literal.append(one_byte ? "|" : header.big_endian ? ">" : "<").append(spelling->kind_and_size);
  literal.append("', 'fortran_order': ").append(header.fortran_order ? "True" : "False");
  literal.append(", 'shape': ").append(tuple(header.shape)).append(", }");
  if (!header.shape.empty()) {
    // Room for the axis that grows, so that an array can be appended to without moving its data.
    constexpr std::size_t growth_digits = 21;
    const std::int64_t growing = header.fortran_order ? header.shape.back() : header.shape.front();
    literal.append(growth_digits - std::to_string(growing).size(), ' ');
  }

  // Magic, version 1.0, u16 length; then at least one space, so that the data start at a multiple of 64.
  constexpr std::size_t alignment = 64, fixed = 10;
  literal.append(alignment - (fixed + literal.size() + 1) % alignment, ' ').append("\n");
  std::string preamble(npy_magic);
  preamble.append({'\1', '\0'});
  preamble.append({static_cast<char>(literal.size() & 0xFF), static_cast<char>(literal.size() >> 8)});
  return preamble + literal;
}

}  // namespace rotary
