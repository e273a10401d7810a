// Lines from a descriptor while a second one is watched: what a chat needs to notice Ctrl-C both at
// its prompt and during a reply. SIGINT is blocked while one of these lives and arrives on a
// descriptor instead. One thread; one at a time.
#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace terrane::ipc::ctl {

class line_input {
 public:
  explicit line_input(int descriptor);
  ~line_input();
  line_input(const line_input&) = delete;
  line_input& operator=(const line_input&) = delete;

  enum class outcome { line, interrupted, end };
  // Waits for a whole line (without its end), Ctrl-C, or the end of the input.
  outcome next(std::string& line);

  // Can be read when Ctrl-C was pressed; take_interrupt takes it out.
  int interrupts() const { return signals_; }
  void take_interrupt();

 private:
  int descriptor_;
  int signals_ = -1;
  sigset_t before_{};
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace terrane::ipc::ctl
