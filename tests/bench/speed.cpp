#include "tests/bench/speed.hpp"

#include <algorithm>
#include <fstream>

#include <unistd.h>

#include "kernels/lang/builder.hpp"

namespace terrane::bench {

namespace {

constexpr std::uint32_t read_block_bytes = 64U << 10;  // that a workgroup reads

// out[group] = the sum of the group's words: enough to keep the loads.
kernels::program read_program() {
  using namespace kernels;
  builder b("plain_read", 1);
  const val base = b.offset(b.argument_ptr(0), b.group_x(), read_block_bytes);
  const val zero = b.spread_to_lanes(b.i32(0));
  const vals sums = b.loop(b.i32(0), b.i32(read_block_bytes / 2048), 1, {zero, zero, zero, zero},
                           [&](val i, const vals& carried) {
                             vals next = carried;
                             for (int part = 0; part < 4; part++) {
                               const val from =
                                   b.offset(b.offset(base, i, 2048), std::int64_t{part} * 512);
                               const vals words = b.stream_lanes_x4(from);
                               for (std::size_t k = 0; k < 4; k++) next[k] = next[k] + words[k];
                             }
                             return next;
                           });
  b.store_lanes(memory_type::i32, b.offset(b.argument_ptr(1), b.group_x(), 128),
                sums[0] + sums[1] + sums[2] + sums[3]);
  return b.finish();
}

}  // namespace

result<double> read_bandwidth(engine::device& on, std::uint64_t bytes) {
  // More than any cache holds, and less than what a driver allocates at once.
  bytes = std::min(bytes, std::uint64_t{2} << 30);
  const std::uint64_t groups = std::max<std::uint64_t>(1, bytes / read_block_bytes);
  auto from = on.allocate(groups * read_block_bytes, engine::memory_use::staging);
  if (!from) return tl::unexpected<error>(from.error());
  auto sums = on.allocate(groups * 128, engine::memory_use::staging);
  if (!sums) return tl::unexpected<error>(sums.error());
  const std::vector<std::byte> filler(read_block_bytes, std::byte{1});
  for (std::uint64_t g = 0; g < groups; g++) {
    result<void> ok = on.write(**from, g * read_block_bytes, filler);
    if (!ok) return tl::unexpected<error>(ok.error());
  }
  auto kernel = on.compile(read_program());
  if (!kernel) return tl::unexpected<error>(kernel.error());
  engine::dispatch d;
  d.kernel = *kernel;
  d.groups_x = static_cast<std::uint32_t>(groups);
  d.arguments[0] = (*from)->address();
  d.arguments[1] = (*sums)->address();
  auto list = on.record({&d, 1});
  if (!list) return tl::unexpected<error>(list.error());
  double best = 0;
  for (int i = 0; i < 7; i++) {
    const steady_time begin = std::chrono::steady_clock::now();
    result<void> ok = on.submit(**list);
    if (ok) ok = on.wait();
    if (!ok) return tl::unexpected<error>(ok.error());
    const double ms = ms_between(begin, std::chrono::steady_clock::now());
    best = std::max(best, static_cast<double>(groups * read_block_bytes) / ms * 1000.0);
  }
  return best;
}

namespace {

// Of this process, bytes: what it has in memory now.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

result<boost::json::object> run_speed(const speed_options& options) {
  open_times times;
  const steady_time begin = std::chrono::steady_clock::now();
  double first_token_ms = 0;
  result<std::unique_ptr<engine::inference_engine>> opened = open_model(options.model, {}, &times);
  if (!opened) return tl::unexpected<error>(opened.error());
  engine::inference_engine& e = **opened;
  std::vector<double> prefill, decode;
  for (std::uint32_t i = 0; i < options.repeat; i++) {
    auto reply = std::make_shared<recorder>();
    engine::generate_request request;
    request.prompt = random_tokens(e, options.prompt, options.seed + i);
    request.max_tokens = options.generate;
    request.sampling.seed = options.seed;
    result<engine::session_id> session = e.generate(request, reply);
    if (!session) return tl::unexpected<error>(session.error());
    const engine::reply_summary& end = reply->wait();
    if (end.failure) return tl::unexpected<error>(*end.failure);
    if (i == 0)
      first_token_ms = ms_between(begin, std::chrono::steady_clock::now()) - end.decode_ms;
    prefill.push_back(options.prompt / end.prefill_ms * 1000.0);
    if (end.generated_tokens > 1)
      decode.push_back((end.generated_tokens - 1) / end.decode_ms * 1000.0);
  }
  const std::uint64_t resident = resident_bytes();
  std::uint64_t kv_bytes = 0;
  for (const engine::device* d : e.devices()) kv_bytes += d->used_bytes(engine::memory_use::kv);
  const std::uint64_t bytes =
      bytes_per_token(e.loaded_model(), options.prompt + options.generate / 2);
  result<double> bandwidth = read_bandwidth(*e.devices().front(), e.loaded_model().weight_bytes());
  if (!bandwidth) return tl::unexpected<error>(bandwidth.error());
  const double rate = quantile(decode, 0.5);
  return boost::json::object{{"command", "speed"},
                             {"prompt", options.prompt},
                             {"generated", options.generate},
                             {"devices_ms", times.devices_ms},
                             {"engine_ms", times.engine_ms},
                             {"first_token_ms", first_token_ms},
                             {"resident_bytes", resident},
                             {"kv_bytes", kv_bytes},
                             {"prefill_tok_s", quantile(prefill, 0.5)},
                             {"decode_tok_s", rate},
                             {"bytes_per_token", bytes},
                             {"read_bandwidth_bytes_s", *bandwidth},
                             {"share_of_bandwidth", rate * static_cast<double>(bytes) / *bandwidth},
                             {"tuning", tuning_of(*e.devices().front())},
                             {"on", describe(e)}};
}

}  // namespace terrane::bench
