// Machine code of a kernel program for a CPU target. Stateless; any thread, several at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

// Raise when the same program would become other code: part of every key of a code cache.
inline constexpr std::uint32_t llvm_lowering_version = 8;

// The program as assembly text for a target, "aarch64-linux-gnu" or "x86_64-linux-gnu", say;
// features as LLVM writes them ("+i8mm,-sve"). For people and for tests of what instructions a
// target gets.
result<std::string> assembly(const program& p, const std::string& triple, const std::string& cpu,
                             const std::string& features);

// For this host: its identity for code caches, and a relocatable object that defines `symbol` as
// cpu_lowering.hpp says. A `processor` that is not empty is taken instead of the host's own.
std::string host_identity(const std::string& processor = {});
result<std::vector<std::byte>> host_object(const program& p, const std::string& symbol,
                                           const std::string& processor = {});

}  // namespace terrane::kernels
