// Runs PTX text on this CPU, slowly: what LLVM writes for kernel programs, no more. So what a
// program computes on an NVIDIA device is compared with the interpreter where there is none.
//
// Threads of a warp that are at the same place run together, those furthest behind first, as the
// hardware's convergence does for structured code; instructions that a warp executes as one are
// faults elsewhere. In text that starts before the grids ahead of it have ended, so is an access to
// global memory before the wait for them, and an end without it. Global addresses are this
// process's. One machine a text; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace terrane::kernels {

class ptx_machine {
 public:
  // `text`: of one entry point. `fault()` tells what it does not know.
  ptx_machine(const std::string& text, int warps, std::uint32_t shared_bytes);

  // Runs all workgroups, one after another.
  void run(std::span<const std::uint64_t> arguments, std::uint32_t groups_x,
           std::uint32_t groups_y);
  const std::string& fault() const { return fault_; }

 private:
  static constexpr unsigned lanes = 32;
  using mask = std::uint32_t;
  using value = std::array<std::uint64_t, lanes>;

  struct warp {
    std::vector<value> registers;
    std::array<std::uint32_t, lanes> at{};  // the next instruction of each thread
    bool waits = false;                     // at the group's barrier
    bool may_access = false;                // the grids before have ended
  };
  struct operand {
    int reg = -1;
    std::uint64_t constant = 0;  // or what is added to the register
  };
  struct step {
    int predicate = -1;
    bool negated = false;
    bool together = false;  // all threads of the warp, at once
    enum class kind { plain, branch, barrier, end } what = kind::plain;
    std::uint32_t target = 0;
    std::function<void(warp&, mask)> run;
    std::string text;
  };

  void parse(const std::string& text);
  void parse_statement(std::string_view statement);
  void decode(step& s, const std::string& name, std::vector<std::vector<operand>> operands);
  operand parse_operand(std::string_view token);
  int register_of(const std::string& name);
  void run_group(std::uint32_t x, std::uint32_t y);
  void advance(warp& w);
  static std::uint64_t get(const warp& w, const operand& o, unsigned lane) {
    return o.reg < 0 ? o.constant : w.registers[static_cast<std::size_t>(o.reg)][lane] + o.constant;
  }

  // Every lane of the mask: f of the operands from the second on, into the first.
  template <class F>
  void each(step& s, const std::vector<std::vector<operand>>& operands, F f);
  bool decode_arithmetic(step& s, const std::vector<std::string>& name,
                         const std::vector<std::vector<operand>>& operands);
  bool unpack(step& s, const std::vector<std::vector<operand>>& operands, unsigned bits);
  bool decode_memory(step& s, const std::vector<std::string>& name,
                     const std::vector<std::vector<operand>>& operands);
  bool decode_together(step& s, const std::vector<std::string>& name,
                       const std::vector<std::vector<operand>>& operands);

  int warps_;
  std::vector<std::uint32_t> shared_;
  std::array<std::uint64_t, 16> arguments_{};
  std::map<std::string, int, std::less<>> registers_;
  std::map<std::string, std::uint32_t, std::less<>> labels_;
  std::vector<std::pair<std::uint32_t, std::string>> jumps_;  // to be resolved
  std::vector<step> steps_;
  bool starts_early_ = false;
  std::set<std::uint64_t> settled_;  // addresses read before the wait for other grids
  std::string fault_;
};

}  // namespace terrane::kernels
