// What one tick costs: 100 parts, 8 devices, 20 policies, 8 sessions. Run by hand on a quiet
// machine:
//   policies_bench --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <cstdlib>
#include <new>

#include <benchmark/benchmark.h>

#include "policies/pipeline/evaluate.hpp"
#include "tests/policies/machine.hpp"

namespace {
std::size_t allocations = 0;
}

// Counts what a tick allocates.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace terrane::policies::tests {
namespace {

machine fleet() {
  machine m;
  m.add_device("cpu", 64 * gib, 8 * gib);
  for (int i = 0; i < 7; ++i) {
    const std::string name = "vulkan:" + std::to_string(i);
    m.add_device(name, 16 * gib, 4 * gib).state.temp_c = {50, 0};
  }
  m.add_layers(50, 64 * mib, 128 * mib, "vulkan:0");
  for (int i = 0; i < 8; ++i) m.add_session("s" + std::to_string(i), 4000, 256 * mib, "vulkan:1");
  return m;
}

std::string yaml_policy(int i, const std::string& body) {
  return "  - name: p" + std::to_string(i) + "\n" + body;
}

// Twenty policies: device, session, host and part policies, with all their forms of conditions.
policy_set_ptr twenty_policies() {
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
  for (int i = 0; i < 20; ++i) text += yaml_policy(i, bodies[i % 5]);
  return *policy_set::from_sources({{"bench.yaml", text}});
}

void quiet_tick(benchmark::State& bench) {
  const policy_set_ptr policies = twenty_policies();
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
    enter = above("vram.used_ratio", 0.5),
    leave = below("vram.used_ratio", 0.1),
    plan = function (gpu, out)
      for part in gpu:parts():movable():top_down():until_bytes(GiB(1)) do
        out:move(part, "cpu", "bench")
      end
    end,
  }
end
)";

void five_lua_plans(benchmark::State& bench) {
  const policy_set_ptr policies = *policy_set::from_sources({{"bench.lua", lua_policies}});
  machine m = fleet();
  m.device("vulkan:0").others = 4 * gib;
  const snapshot now = m.at(0);
  std::size_t records = 0;
  for (auto _ : bench) {
    pipeline_state state;
    const decision d = evaluate(*policies, now, state);
    records += d.records.size();
  }
  bench.counters["plans"] = static_cast<double>(records) / static_cast<double>(bench.iterations());
}
BENCHMARK(five_lua_plans)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace terrane::policies::tests

BENCHMARK_MAIN();
