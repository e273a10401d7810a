// Runs a declarative test of policies: the machine ticks once a second, the policies decide on each
// snapshot as they do in the daemon, and what they planned is compared with what the test expects.
// What is not as expected is told in full: at which second, what was expected, what came, and why,
// in the decisions' own sentences. No clock, no waiting: an hour of trace takes milliseconds. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "policies/scenario/script.hpp"

namespace terrane::policies::scenario {

// One expectation that was not met.
struct mismatch {
  source_location where;
  std::int64_t at_ms = 0;
  std::string text;  // several lines, the last one ended
};

struct report {
  std::string file;
  std::string title;               // empty when the file could not be read
  std::vector<diagnostic> faults;  // of the test or its policies; then nothing has run
  std::vector<mismatch> mismatches;
  std::int64_t lasted_ms = 0;  // of the trace
  std::size_t moves = 0;       // that were planned, shadow mode not counted

  bool ran() const { return faults.empty(); }
  bool passed() const { return ran() && mismatches.empty(); }
};

report run_script(const script& what);
// Reads the file as well; never throws.
report run_file(const std::filesystem::path& file);

// The files that are tests: a file itself, and of a folder every *.test.yaml in it and below, in
// the order of their names. The error says why a path gives none.
result<std::vector<std::filesystem::path>> find_tests(const std::filesystem::path& path);

// "ok", "FAILED" or "cannot run", the file, its sentence, and everything that is wrong; ends with a
// newline.
std::string to_text(const report& r);

}  // namespace terrane::policies::scenario
