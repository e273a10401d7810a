// What one tick costs: 8 devices, 200 parts, 50 policies, 32 sessions. Run by hand on a quiet
// machine:
//   policies_bench --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
// A million ticks in which policies fire now and then, and what is held in memory meanwhile:
//   policies_bench --benchmark_filter=million
#include <algorithm>
#include <cstdlib>
#include <new>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include "policies/explain/journal.hpp"
#include "policies/pipeline/evaluate.hpp"
#include "tests/policies/machine.hpp"

namespace {
std::size_t allocations = 0;
std::size_t held_bytes = 0;
}  // namespace

// Counts what a tick allocates, and what is held.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  held_bytes += malloc_usable_size(memory);
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  held_bytes -= malloc_usable_size(memory);
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace terrane::policies::tests {
namespace {

machine fleet() {
  machine m;
  m.add_device("cpu", 64 * gib, 8 * gib);
  for (int i = 0; i < 7; ++i) {
    const std::string name = "vulkan:" + std::to_string(i);
    m.add_device(name, 16 * gib, 4 * gib).state.temp_c = {50, 0};
  }
  m.add_layers(100, 32 * mib, 64 * mib, "vulkan:0");
  for (int i = 0; i < 32; ++i) m.add_session("s" + std::to_string(i), 4000, 64 * mib, "vulkan:1");
  return m;
}

std::string yaml_policy(int i, const std::string& body) {
  return "  - name: p" + std::to_string(i) + "\n" + body;
}

// Device, session, host and part policies, with all their forms of conditions.
std::string yaml_policies(int count) {
  const std::string bodies[] = {
      "    for_each: gpu\n"
      "    enter: {metric: vram.used_ratio, above: 92%, held: 5s}\n"
      "    leave: {metric: vram.used_ratio, below: 84%}\n"
      "    do: {move: layers, to: cpu}\n    undo: restore\n",
      "    for_each: device\n"
      "    enter: {any_of: [{metric: temp_c, above: 85C}, {metric: vram.free, below: 1GiB}]}\n"
      "    leave: {all_of: [{metric: temp_c, below: 70C}, {metric: vram.free, above: 2GiB}]}\n"
      "    do: {move: layers, until: all, to: most_free}\n",
      "    for_each: session\n"
      "    enter: {all_of: [{metric: context.tokens, above: 8192}, {metric: idle_s, above: 45s}]}\n"
      "    leave: {metric: idle_s, below: 1s}\n"
      "    do: {spill: kv, to: cpu}\n    undo: restore\n",
      "    for_each: part\n"
      "    enter: {metric: part.kv_bytes, above: 1GiB}\n"
      "    leave: {metric: part.kv_bytes, below: 500MiB}\n"
      "    do: {move: parts, to: cpu}\n",
      "    for_each: host\n"
      "    enter: {metric: host.pressure, above: 20%}\n"
      "    leave: {metric: host.pressure, below: 5%}\n"
      "    do: {move: layers, to: most_free}\n"};
  std::string text = "apiVersion: terrane/v1\npolicies:\n";
  for (int i = 0; i < count; ++i) text += yaml_policy(i, bodies[i % 5]);
  return text;
}

policy_set_ptr fifty_policies() {
  return *policy_set::from_sources({{"bench.yaml", yaml_policies(50)}});
}

void quiet_tick(benchmark::State& bench) {
  const policy_set_ptr policies = fifty_policies();
  machine m = fleet();
  snapshot now = m.at(0);
  pipeline_state state;
  std::size_t planned = 0;
  evaluate(*policies, now, state);
  const std::size_t before = allocations;
  for (auto _ : bench) {
    now.time_ms += 1;
    ++now.sequence;
    const decision d = evaluate(*policies, now, state);
    planned += d.planned.moves.size();
    benchmark::DoNotOptimize(planned);
  }
  bench.counters["allocations"] =
      static_cast<double>(allocations - before) / static_cast<double>(bench.iterations());
  if (planned != 0) bench.SkipWithError("something fired");
}
// Samples stay fresh for three seconds of the snapshot's clock, a millisecond each tick.
BENCHMARK(quiet_tick)->Iterations(2000)->Unit(benchmark::kMicrosecond);

const char* const lua_policies = R"(
for i = 1, 5 do
  policy("lua" .. i) {
    for_each = "gpu",
    enter = above("vram.used_ratio", 0.88),
    leave = below("vram.used_ratio", 0.1),
    plan = function (gpu, out)
      for part in gpu:parts():movable():top_down():until_bytes(GiB(1)) do
        out:move(part, "cpu", "bench")
      end
    end,
  }
end
)";

// Forty-five that are quiet and five that fire.
void five_lua_plans(benchmark::State& bench) {
  const policy_set_ptr policies =
      *policy_set::from_sources({{"bench.yaml", yaml_policies(45)}, {"bench.lua", lua_policies}});
  machine m = fleet();
  pipeline_state quiet;
  evaluate(*policies, m.at(0), quiet);
  m.device("vulkan:0").others = 5 * gib;
  const snapshot now = m.at(1000);
  std::size_t records = 0;
  for (auto _ : bench) {
    bench.PauseTiming();
    pipeline_state state = quiet;
    bench.ResumeTiming();
    const decision d = evaluate(*policies, now, state);
    records += d.records.size();
  }
  bench.counters["plans"] = static_cast<double>(records) / static_cast<double>(bench.iterations());
}
BENCHMARK(five_lua_plans)->Unit(benchmark::kMicrosecond);

// Other programs fill one card after the other for a minute in ten, so that layers keep moving:
// what ticks keep must not grow with their number. Counts from when the journal is full.
void a_million_ticks(benchmark::State& bench) {
  constexpr std::int64_t ticks = 1'000'000, settled = 200'000;
  std::size_t moves = 0, at_first = 0, most = 0;
  for (auto _ : bench) {
    const policy_set_ptr policies = fifty_policies();
    machine m = fleet();
    pipeline_state state;
    journal past;
    for (std::int64_t i = 0; i < ticks; ++i) {
      m.device("vulkan:" + std::to_string(i / 600 % 7)).others = i % 600 < 60 ? 15 * gib : 2 * gib;
      const snapshot& now = m.at(i * 1000);
      const decision d = evaluate(*policies, now, state);
      past.add(d);
      m.carry_out(d.planned, i * 1000);
      moves += d.planned.moves.size();
      if (i == settled) at_first = held_bytes;
      if (i > settled && i % 100 == 0) most = std::max(most, held_bytes);
    }
  }
  bench.counters["moves"] = static_cast<double>(moves);
  bench.counters["held_bytes"] = static_cast<double>(at_first);
  bench.counters["growth"] = static_cast<double>(most) / static_cast<double>(at_first) - 1;
  if (moves == 0) bench.SkipWithError("nothing moved");
  // A tick holds more while moves are under way.
  if (most > at_first + at_first / 4) bench.SkipWithError("memory grows with the ticks");
}
BENCHMARK(a_million_ticks)->Iterations(1)->Repetitions(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace terrane::policies::tests

BENCHMARK_MAIN();
