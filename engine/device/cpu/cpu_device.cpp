#include "engine/device/cpu/cpu_device.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include <sched.h>

#include "engine/device/cpu/fetch_plan.hpp"
#include "engine/device/cpu/host_memory.hpp"
#include "engine/device/cpu/worker_pool.hpp"
#include "engine/device/host_copies.hpp"
#include "kernels/cache/code_cache.hpp"
#include "kernels/llvm/host_compiler.hpp"

namespace terrane::engine {

namespace {

// Shared memory of a workgroup; more than any GPU gives, so no kernel asks for more.
constexpr std::size_t shared_bytes = std::size_t{256} << 10;

struct cpu_kernel : device_kernel {
  kernels::group_function run = nullptr;
};

struct cpu_command_list : command_list {
  std::vector<cpu_phase> phases;
  fetch_plan fetches;  // of the phases
};

// Cores that this process may use (a container or a service may have few of them).
unsigned usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
    return static_cast<unsigned>(CPU_COUNT(&set));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      if (std::size_t colon = line.find(": "); colon != std::string::npos) {
        return line.substr(colon + 2);
      }
    }
  }
  return "this host's processor";
}

// Copies are shared in pieces of this, which take a worker some microseconds.
constexpr std::size_t shared_piece_bytes = std::size_t{32} << 10;

// A phase's function: pieces [x_begin, x_end) of the host_copy array that the first argument is the
// address of.
void copy_pieces(const std::uint64_t* arguments, std::uint32_t x_begin, std::uint32_t x_end,
                 std::uint32_t, void*) {
  const auto* pieces = reinterpret_cast<const host_copy*>(arguments[0]);
  for (std::uint32_t x = x_begin; x < x_end; x++)
    std::memcpy(pieces[x].to, pieces[x].from, pieces[x].bytes);
}

void do_nothing(const std::uint64_t*, std::uint32_t, std::uint32_t, std::uint32_t, void*) {}

class cpu_device : public device, public host_copier {
 public:
  cpu_device(device_info info, std::unique_ptr<kernels::code_cache> cache,
             std::unique_ptr<kernels::host_compiler> compiler, std::unique_ptr<worker_pool> pool)
      : device(std::move(info)),
        cache_(std::move(cache)),
        compiler_(std::move(compiler)),
        pool_(std::move(pool)) {
    // Enough groups that it wakes all workers.
    waking_.run = do_nothing;
    waking_.groups_x = 4 * pool_->threads();
    waking_.groups_y = 1;
    copying_.run = copy_pieces;
    copying_.groups_y = 1;
  }

  result<const device_kernel*> compile(const kernels::program& p) override;
  result<std::unique_ptr<command_list>> record(std::span<const dispatch> phases) override;
  result<void> submit(command_list& list) override;
  result<void> wait() override;
  result<void> write(device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override;
  result<void> read(const device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override;
  // By the thread that submits, while no list runs.
  void copy(std::span<const host_copy> copies) override;
  void expect() override { pool_->submit({&waking_, 1}); }
  std::uint64_t driver_used_bytes() const override {
    return read_host_memory().value_or(host_memory()).used_bytes();
  }

 private:
  result<std::unique_ptr<device_memory>> allocate_memory(std::size_t bytes, memory_use) override {
    return allocate_host_memory(bytes);
  }

  std::unique_ptr<kernels::code_cache> cache_;
  std::unique_ptr<kernels::host_compiler> compiler_;
  std::unique_ptr<worker_pool> pool_;
  const std::size_t fetched_at_most_ = fetched_at_most();
  cpu_phase waking_, copying_;
  std::vector<host_copy> pieces_;  // of copying_
  std::mutex mutex_;
  std::map<kernels::group_function, std::unique_ptr<cpu_kernel>> kernels_;
};

result<const device_kernel*> cpu_device::compile(const kernels::program& p) {
  if (std::size_t wanted = std::size_t{p.shared_words} * 4; wanted > shared_bytes) {
    return fail(error_code::unsupported,
                "kernel program '" + p.name + "' wants " + std::to_string(wanted) +
                    " bytes of shared memory; a workgroup has " + std::to_string(shared_bytes),
                info_.name);
  }
  auto run = compiler_->compile(p);
  if (!run) return tl::unexpected(run.error());
  std::lock_guard lock(mutex_);
  std::unique_ptr<cpu_kernel>& kernel = kernels_[*run];
  if (kernel == nullptr) {
    kernel = std::make_unique<cpu_kernel>();
    kernel->run = *run;
  }
  return kernel.get();
}

result<std::unique_ptr<command_list>> cpu_device::record(std::span<const dispatch> phases) {
  auto list = std::make_unique<cpu_command_list>();
  list->phases.reserve(phases.size());
  for (const dispatch& d : phases) {
    if (std::uint64_t{d.groups_x} * d.groups_y > UINT32_MAX) {
      return fail(error_code::unsupported,
                  "a phase of " + std::to_string(d.groups_x) + " by " + std::to_string(d.groups_y) +
                      " workgroups; at most 4294967295 are possible",
                  info_.name);
    }
    const auto& kernel = static_cast<const cpu_kernel&>(*d.kernel);
    list->phases.push_back({kernel.run, d.groups_x, d.groups_y, d.arguments, d.order, {}});
  }
  list->fetches = fetch_plan(list->phases, phases, pool_->threads(), fetched_at_most_);
  list->launches = static_cast<std::uint32_t>(phases.size());
  return list;
}

result<void> cpu_device::submit(command_list& list) {
  pool_->submit(static_cast<cpu_command_list&>(list).phases);
  count_launches(list.launches);
  return {};
}

result<void> cpu_device::wait() {
  pool_->wait();
  return {};
}

tl::unexpected<error> outside(const char* what, std::size_t offset, std::size_t bytes,
                              std::size_t size) {
  return fail(error_code::invalid_input,
              std::string("a ") + what + " of " + std::to_string(bytes) + " bytes at " +
                  std::to_string(offset) + " leaves memory of " + std::to_string(size) + " bytes",
              "cpu");
}

result<void> cpu_device::write(device_memory& to, std::size_t offset,
                               std::span<const std::byte> from) {
  if (offset > to.bytes() || from.size() > to.bytes() - offset) {
    return outside("write", offset, from.size(), to.bytes());
  }
  if (!from.empty()) std::memcpy(to.host() + offset, from.data(), from.size());
  return {};
}

result<void> cpu_device::read(const device_memory& from, std::size_t offset,
                              std::span<std::byte> to) {
  if (offset > from.bytes() || to.size() > from.bytes() - offset) {
    return outside("read", offset, to.size(), from.bytes());
  }
  if (!to.empty()) std::memcpy(to.data(), from.host() + offset, to.size());
  return {};
}

void cpu_device::copy(std::span<const host_copy> copies) {
  pieces_.clear();
  for (const host_copy& c : copies)
    for (std::size_t at = 0; at < c.bytes; at += shared_piece_bytes)
      pieces_.push_back({c.to + at, c.from + at, std::min(shared_piece_bytes, c.bytes - at)});
  if (pieces_.empty()) return;
  pool_->wait_awake();  // for what only woke workers
  copying_.arguments[0] = reinterpret_cast<std::uint64_t>(pieces_.data());
  copying_.groups_x = static_cast<std::uint32_t>(pieces_.size());
  pool_->submit({&copying_, 1});
  pool_->wait_awake();
}

}  // namespace

device_info describe_cpu(const cpu_device_options& options) {
  const unsigned threads = options.threads != 0 ? options.threads : usable_cores();
  device_info info;
  info.name = "cpu";
  info.kind = device_kind::cpu;
  info.description =
      processor_name() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  info.memory_bytes = host_memory_bytes();
  info.host_memory = true;
  return info;
}

result<std::unique_ptr<device>> make_cpu_device(const cpu_device_options& options) {
  auto cache = std::make_unique<kernels::code_cache>(options.cache_folder);
  auto compiler = kernels::host_compiler::make(cache.get());
  if (!compiler) return tl::unexpected(compiler.error());
  unsigned threads = options.threads != 0 ? options.threads : usable_cores();
  auto pool = worker_pool::start(threads, shared_bytes);
  if (!pool) return tl::unexpected(pool.error());
  device_info info = describe_cpu(options);
  info.driver = (*compiler)->identity();
  info.product_columns = (*compiler)->product_columns();
  info.product_blocks = (*compiler)->product_blocks();
  auto made = std::make_unique<cpu_device>(std::move(info), std::move(cache), std::move(*compiler),
                                           std::move(*pool));
  made->set_budget_bytes(options.budget_bytes);
  return made;
}

}  // namespace terrane::engine
