// What the tuner found, kept on disk beside the compiled code, one entry for each device, driver
// and version of this program. An entry that is damaged, or has a line that makes no sense, counts
// as absent or lacks that line; nothing here fails. Any thread; processes that write at once lose
// some of what they found, never more.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/tuning/device_tuning.hpp"

namespace terrane::engine {

// Of a kernel's program as it would be by default: another program, or another compiler of ours,
// and what was measured counts no more.
std::uint64_t program_version(const kernels::program& by_default);

using tuned_kernels = std::map<std::string, tuned_kernel>;  // by tuning_key()

tuned_kernels remembered_kernels(const std::string& cache_folder, const device_info& on);
// Adds to what is remembered, replacing what has the same key.
void remember_kernels(const std::string& cache_folder, const device_info& on,
                      const tuned_kernels& found);

// One kernel as a line of that file, and back.
std::string line_of(const std::string& key, const tuned_kernel& kernel);
std::optional<std::pair<std::string, tuned_kernel>> read_line(const std::string& line);

}  // namespace terrane::engine
