#include "tools/chart.h"

namespace rotary {

void Legend::dot(Tone tone, const std::string& words) {
  svg_.dot({x_ + 4, y_ - 4}, 3.5, tone);
  add(14, words);
}

void Legend::ring(Tone tone, const std::string& words) {
  svg_.ring({x_ + 4, y_ - 4}, 3.2, tone);
  add(14, words);
}

void Legend::line(Tone tone, const std::string& words, const char* dashes) {
  svg_.line({x_, y_ - 4}, {x_ + 18, y_ - 4}, tone, 2, dashes);
  add(24, words);
}

void Legend::add(double mark, const std::string& words) {
  constexpr double size = 12, per_letter = 6.1;
  svg_.text({x_ + mark, y_}, words, size, Tone::faint);
  x_ += mark + per_letter * static_cast<double>(words.size()) + 16;
}

void x_tick(Svg& svg, const Scale& x, const Scale& y, double value, const std::string& words) {
  svg.line({x(value), y.first}, {x(value), y.first + 4}, Tone::faint);
  svg.text({x(value), y.first + 18}, words, 12, Tone::faint, Anchor::middle);
}

void y_tick(Svg& svg, const Scale& x, const Scale& y, double value, const std::string& words) {
  svg.line({x.first, y(value)}, {x.last, y(value)}, Tone::grid);
  svg.text({x.first - 8, y(value) + 4}, words, 12, Tone::faint, Anchor::end);
}

void frame(Svg& svg, const Scale& x, const Scale& y, const std::string& x_words, const std::string& y_words) {
  svg.line({x.first, y.first}, {x.last, y.first}, Tone::faint);
  svg.text({(x.first + x.last) / 2, y.first + 40}, x_words, 13, Tone::ink, Anchor::middle);
  svg.text({x.first - 58, (y.first + y.last) / 2}, y_words, 13, Tone::ink, Anchor::middle, false, -90);
}

}  // namespace rotary
