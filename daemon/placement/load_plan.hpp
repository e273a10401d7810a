// Where the parts of a model are put when it is loaded: what the planner (policies/placement) is
// asked, from the model's header, the devices and the configuration, and how long parts take, as it
// is measured on each device. Nothing of the model's weights is read. Any thread; the devices run
// nothing else meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/config.hpp"
#include "daemon/loop/measurements.hpp"
#include "engine/engine.hpp"
#include "engine/placement/part_timing.hpp"
#include "policies/placement/planner.hpp"

namespace terrane::daemon {

// What is known of one device before anything is loaded.
struct device_facts {
  std::string name;
  std::uint64_t budget_bytes = 0;  // of the model, all in all, with what others use left out
  std::uint64_t reserve_bytes = 0;
  std::uint64_t scratch_bytes = 0;
  std::uint64_t others_bytes = 0;
  std::uint32_t rank = 0;
  bool host_memory = false;      // it takes from the host's memory
  std::string card;              // devices of one card share its memory
  std::uint64_t card_bytes = 0;  // of that, what others do not use
  engine::part_timing timing;
  std::string left_out;  // why it may hold nothing; empty: it may
};

struct load_plan {
  policies::placement::request asked;
  policies::placement::answer answer;
};

// `devices` as the configuration lists them. Opens nothing, loads nothing, times nothing.
std::vector<device_facts> facts_of(const std::vector<std::unique_ptr<engine::device>>& devices,
                                   const std::vector<device_config>& configured,
                                   const engine::model& of, const engine::engine_options& options);
// The same with the time that parts take on each device.
std::vector<device_facts> look_at(const std::vector<std::unique_ptr<engine::device>>& devices,
                                  const std::vector<device_config>& configured,
                                  const engine::model& of, const engine::engine_options& options);

// Pure. Times of what was not measured follow from bytes: attention reads its weights and, on
// average, half of a session's context.
// Devices that take from the host's memory get by with `host_bytes` together (0: not counted),
// those of a card with the card's.
policies::placement::request make_request(const engine::model& of,
                                          const std::vector<device_facts>& devices,
                                          const engine::engine_options& options,
                                          std::uint64_t host_bytes);

// Fails with no_room and the term that blocks.
result<load_plan> plan_load(const engine::model& of, const std::vector<device_facts>& devices,
                            const engine::engine_options& options, std::uint64_t host_bytes);
// What the request has to have in it, once its context is another: the devices' scratch.
std::function<void(policies::placement::request&)> at_context(
    const std::vector<std::unique_ptr<engine::device>>& devices, const engine::model& of,
    const engine::engine_options& options);

// What parts were found to take on each device that was timed.
std::vector<first_part_time> first_times(const load_plan& planned);

// What a load knows of parts and devices that nothing measures later, for snapshots. Empty where
// nothing was planned.
struct load_facts {
  struct device {
    std::uint64_t scratch_bytes = 0;
    double hop_ms = 0;  // until the state between two parts has come to it, from the farthest
    std::uint32_t rank = 0;
  };
  std::vector<device> devices;               // by the engine's numbers
  std::vector<std::uint64_t> kv_most_bytes;  // by part: of its KV when all contexts are full
  std::vector<first_part_time> first_times;
  bool promotes = false;  // the configuration wants automatic promotion
};
load_facts facts_of(const load_plan& planned);

// What the host can give now, as /proc/meminfo says; 0 when it says nothing.
std::uint64_t available_host_bytes();

}  // namespace terrane::daemon
