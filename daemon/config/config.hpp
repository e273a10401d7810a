// The daemon's configuration: one YAML file, read once at the start. Every fault is a diagnostic
// with file:line:column and the nearest known key; a faulty file stops the start. Plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "daemon/record/trace_files.hpp"
#include "engine/sampling/sampler.hpp"
#include "policies/diagnostic.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::daemon {

struct device_config {
  std::string name;      // a name of `terraned --list-devices`, or a kind alone for its first
  unsigned threads = 0;  // CPU only; 0: all cores
  std::uint64_t budget_bytes = 0;   // what Terrane may use; 0: what the device has
  std::uint64_t reserve_bytes = 0;  // what policies and automatic placement leave free for others
  // For automatic placement: a rank is used once the devices of lower ranks cannot hold all.
  std::uint32_t rank = 0;
};

struct config {
  std::filesystem::path model_file;
  std::uint32_t context_tokens = 4096;  // of a session; cut to what the model was trained for
  std::uint32_t sessions = 4;           // at once
  std::uint32_t rows = 0;               // tokens of one step; 0: as engine::automatic_rows() says
  bool check_numbers = true;            // refuse a file with scales that are not finite
  std::vector<device_config> devices;   // in the order of their numbers in the engine
  // Device that holds all parts at the start, or "automatic": where the planner puts each part.
  // Empty: the first usable one.
  std::string start_on;
  // With "automatic": parts go on to where a token takes less, once there is room (the built-in
  // policy "promotion").
  bool promotes = false;
  std::vector<std::string> pinned;  // part names or patterns with * and ? that never move
  std::vector<std::filesystem::path> policies;
  policies::move_limits limits;         // on what all policies together move
  std::int64_t period_ms = 1000;        // of telemetry and policies
  std::filesystem::path readings_file;  // telemetry by hand; empty: none
  record_settings record;               // of decisions; off without a folder
  // Where the state that outlives the daemon is kept; empty: nowhere. By default systemd's.
  std::filesystem::path state_folder;
  std::string socket = "/run/terrane/control.sock";
  std::string operate_group = "terrane", admin_group = "terrane-admin";
  std::uint32_t max_tokens = 512;  // of a reply that does not say
  engine::sampling_parameters sampling;
  bool hash_logits = false;  // every reply ends with the hash of all its logits
  std::string cache_folder;  // of compiled kernels; empty: the default place
  // Whether kernels are timed at the first start of a device; else when an administrator asks.
  bool tune_at_first_use = true;
};

// `start_on` where the planner puts each part.
inline constexpr std::string_view automatic_start = "automatic";

// Whether a word of the configuration means the device of that name: it is the name, or the name's
// kind alone ("vulkan" for "vulkan:0").
bool names_device(std::string_view word, std::string_view name);

using diagnostics = std::vector<policies::diagnostic>;

tl::expected<config, diagnostics> load_config(const std::filesystem::path& path);
// The same from a text at hand; `name` is what messages call it.
tl::expected<config, diagnostics> parse_config(const std::string& name, const std::string& text);

}  // namespace terrane::daemon
