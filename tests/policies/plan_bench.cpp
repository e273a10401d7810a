// What a placement costs to plan: one machine of 8 devices and 200 parts, and fleets of up to
// 10,000 devices and 100,000 parts, ten parts a device. Run by hand on a quiet machine:
//   policies_plan_bench --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include "policies/placement/difference.hpp"
#include "policies/placement/planner.hpp"
#include "tests/policies/placement_cases.hpp"

namespace terrane::policies::tests {
namespace {

constexpr std::uint64_t mib = 1U << 20, gib = 1U << 30;

// A CPU and seven cards of four speeds that do not hold all of the model: where to spill is a
// choice.
placement::request one_machine() {
  placement::request r = transformer(99, 60 * mib, 170 * mib, 512 * 1024);
  add_device(r, "cpu", 64 * gib, 60e9);
  for (std::uint64_t i = 1; i < 8; ++i)
    add_device(r, "gpu" + std::to_string(i), (3 + (i + 2) % 3) * gib - 200 * mib,
               200e9 * static_cast<double>(1 + i % 4));
  for (auto& d : r.devices) d.fee_bytes = 150 * mib;
  return r;
}

// Hosts of a CPU, two cards and two old cards.
placement::request fleet(std::uint32_t devices) {
  placement::request r = transformer(devices * 5 - 1, 60 * mib, 170 * mib, 64 * 1024);
  add_device(r, "cpu", 4 * gib, 60e9);
  add_device(r, "card", 2 * gib, 900e9);
  add_device(r, "old card", 1 * gib, 300e9);
  const std::vector<placement::device_supply> kinds = r.devices;
  r.devices.clear();
  for (std::uint32_t d = 0; d < devices; ++d) {
    r.devices.push_back(kinds[d % 5 == 0 ? 0 : d % 5 < 3 ? 1 : 2]);
    r.devices.back().name += " " + std::to_string(d);
    r.devices.back().site = d / 5;
    r.devices.back().fee_bytes = 50 * mib;
  }
  return r;
}

void report(benchmark::State& bench, const placement::request& r) {
  double over_bound = 0;
  for (auto _ : bench) {
    const auto a = placement::plan(r);
    if (!a) {
      bench.SkipWithError(a.error().message.c_str());
      break;
    }
    over_bound = a->predicted.token_s / a->bound_s - 1;
  }
  bench.counters["over_bound"] = over_bound;  // how far from the best it is at most
  bench.counters["parts"] = static_cast<double>(r.parts.size());
}

void plan_one_machine(benchmark::State& bench) { report(bench, one_machine()); }
BENCHMARK(plan_one_machine)->Unit(benchmark::kMillisecond);

// Three pairs of these cards are one card each, seen by two drivers, with a third less in all.
void plan_one_machine_with_pools(benchmark::State& bench) {
  placement::request r = one_machine();
  for (std::uint32_t d = 1; d < 7; d += 2)
    r.pools.push_back({"the memory of card " + std::to_string(d),
                       {d, d + 1},
                       (r.devices[d].budget_bytes + r.devices[d + 1].budget_bytes) / 3 * 2});
  report(bench, r);
}
BENCHMARK(plan_one_machine_with_pools)->Unit(benchmark::kMillisecond);

void plan_fleet(benchmark::State& bench) {
  report(bench, fleet(static_cast<std::uint32_t>(bench.range(0))));
}
BENCHMARK(plan_fleet)->RangeMultiplier(10)->Range(10, 10'000)->Unit(benchmark::kMillisecond);

void sequence_of_one_machine(benchmark::State& bench) {
  placement::request r = one_machine();
  const auto now = placement::plan(r);
  r.devices[3].budget_bytes = r.devices[3].fee_bytes;  // that card is to be given back
  const auto target = placement::plan(r);
  if (!now || !target) return bench.SkipWithError("no placement");
  for (auto _ : bench)
    benchmark::DoNotOptimize(placement::find_sequence(r, {now->where, {}}, target->where));
}
BENCHMARK(sequence_of_one_machine)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace terrane::policies::tests

BENCHMARK_MAIN();
