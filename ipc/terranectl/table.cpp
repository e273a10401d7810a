#include "ipc/terranectl/table.hpp"

#include <algorithm>
#include <cassert>

#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t narrowest = 8;  // of the column that gives way

}  // namespace

void table::add(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  for (std::string& cell : cells) {
    cell = printable(cell);
    std::replace(cell.begin(), cell.end(), '\n', ' ');
  }
  rows_.push_back(std::move(cells));
}

// 0 for a column that is left out.
std::vector<std::size_t> table::widths(std::size_t width) const {
  std::vector<std::size_t> needed(columns_.size());
  std::size_t total = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    for (const auto& row : rows_) {
      needed[c] = std::max(needed[c], width_of(row[c]));
    }
    if (needed[c] > 0) {
      needed[c] = std::max(needed[c], width_of(columns_[c].title));
      total += needed[c] + (total > 0 ? gap : 0);
    }
  }
  for (std::size_t c = 0; c < columns_.size() && total > width; ++c) {
    if (columns_[c].gives_way && needed[c] > narrowest) {
      needed[c] -= std::min(total - width, needed[c] - narrowest);
    }
  }
  return needed;
}

void table::print(std::ostream& out, std::size_t width, const std::string& title_start,
                  const std::string& title_end) const {
  const std::vector<std::size_t> wide = widths(width);
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (wide[c] == 0) {
        continue;
      }
      const std::string cell = cut(cell_of(c), wide[c]);
      const std::string space(wide[c] - width_of(cell), ' ');
      text += text.empty() ? "" : std::string(gap, ' ');
      text += columns_[c].side == align::right ? space + cell : cell + space;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  out << title_start << line([&](std::size_t c) { return columns_[c].title; }) << title_end << "\n";
  for (const auto& row : rows_) {
    out << line([&](std::size_t c) { return row[c]; }) << "\n";
  }
}

}  // namespace terrane::ipc::ctl
