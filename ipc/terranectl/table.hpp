// Aligned columns of text that fit the terminal: one column may give way. Plain value; one thread.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace terrane::ipc::ctl {

enum class align { left, right };

struct column {
  std::string title;
  align side = align::left;
  bool gives_way = false;  // is cut when a row would be too wide; one column at most
};

class table {
 public:
  explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

  // As many cells as columns. A column that is empty in every row is left out.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // `title_start` and `title_end` go around the line of titles (colours, or nothing).
  void print(std::ostream& out, std::size_t width, const std::string& title_start,
             const std::string& title_end) const;

 private:
  std::vector<std::size_t> widths(std::size_t width) const;

  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace terrane::ipc::ctl
