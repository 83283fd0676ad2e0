// Whether elements nest and attributes are quoted: what a picture needs to be shown at all.
#pragma once

#include <string>
#include <vector>

namespace rotary {

/// "" where it does; else what is wrong. For XML without comments, sections and declarations.
inline std::string fault_in_xml(const std::string& text) {
  std::vector<std::string> open;
  bool had_root = false;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '&') {
      const std::size_t end = text.find(';', at);
      const std::string entity = end == text.npos ? "" : text.substr(at, end - at + 1);
      if (entity != "&lt;" && entity != "&amp;") return "a bare & at " + std::to_string(at);
    }
    if (text[at] != '<') {
      ++at;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == text.npos) return "an element that does not end";
    std::string tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.find('<') != tag.npos) return "a < within " + tag;
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag.substr(1) + "> closes nothing";
      open.pop_back();
      continue;
    }
    if (open.empty() && had_root) return "a second root";
    had_root = true;
    std::size_t quotes = 0;
    for (const char c : tag) quotes += c == '"' ? 1 : 0;
    if (quotes % 2 != 0) return "quotes in " + tag;
    if (tag.back() != '/') open.push_back(name);
  }
  return !had_root ? "no element" : open.empty() ? "" : "<" + open.back() + "> is not closed";
}

}  // namespace rotary
