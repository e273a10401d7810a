#include "engine/session/session.hpp"

#include <algorithm>

namespace terrane::engine {

stop_texts::stop_texts(std::vector<std::string> texts) : texts_(std::move(texts)) {
  std::erase_if(texts_, [](const std::string& t) { return t.empty(); });
}

std::string_view stop_texts::push(std::string_view text) {
  if (texts_.empty()) return text;
  held_ += text;
  std::size_t cut = std::string::npos;
  for (const std::string& t : texts_) cut = std::min(cut, held_.find(t));
  if (cut != std::string::npos) {
    found_ = true;
    ready_.assign(held_, 0, cut);
    held_.clear();
    return ready_;
  }
  // The longest end of what is held that begins a stop text stays.
  std::size_t keep = 0;
  for (const std::string& t : texts_)
    for (std::size_t n = std::min(t.size() - 1, held_.size()); n > keep; n--)
      if (held_.ends_with(std::string_view(t).substr(0, n))) keep = n;
  ready_.assign(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return ready_;
}

std::string_view stop_texts::finish() {
  ready_.swap(held_);
  held_.clear();
  return ready_;
}

}  // namespace terrane::engine
