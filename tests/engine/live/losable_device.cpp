#include "tests/engine/live/losable_device.hpp"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {

namespace {

class remote_memory final : public engine::device_memory {
 public:
  explicit remote_memory(std::unique_ptr<engine::device_memory> of)
      : device_memory(of->address(), of->bytes(), nullptr), of_(std::move(of)) {}

 private:
  std::unique_ptr<engine::device_memory> of_;
};

engine::device_info named(engine::device_info info, const std::string& name) {
  info.name = name;
  return info;
}

// Counts down to 0, once.
bool is_last(std::atomic<std::size_t>& left) {
  std::size_t now = left.load();
  while (now != 0)
    if (left.compare_exchange_weak(now, now - 1)) return now == 1;
  return false;
}

}  // namespace

losable_device::losable_device(std::shared_ptr<shared_cpu> on, const std::string& name)
    : device(named(on->cpu->info(), name)), on_(std::move(on)) {}

void losable_device::call_at(std::size_t n, std::function<void()> f) {
  hook_ = std::move(f);
  until_hook_ = n;
}

bool losable_device::disarm() {
  calls_left_ = allocations_left_ = until_hook_ = 0;
  return came_.exchange(false);
}

result<void> losable_device::call() {
  if (is_last(until_hook_)) {
    came_ = true;
    hook_();
  }
  if (each_) each_();
  if (is_last(calls_left_)) came_ = lost_ = true;
  if (lost_) return tl::unexpected<error>(*lost());
  return {};
}

std::optional<error> losable_device::lost() const {
  if (!lost_) return std::nullopt;
  return error{error_code::device_fault, "its driver answers nothing any more", info().name};
}

result<std::unique_ptr<engine::device_memory>> losable_device::allocate_memory(std::size_t bytes,
                                                                               engine::memory_use) {
  result<void> ok = call();
  if (!ok) return tl::unexpected<error>(ok.error());
  if (is_last(allocations_left_)) {
    came_ = true;
    return fail(error_code::no_room, "the driver has no memory", info().name);
  }
  auto made = on_->cpu->allocate(bytes, engine::memory_use::staging);
  if (!made) return made;
  return std::make_unique<remote_memory>(std::move(*made));
}

result<const engine::device_kernel*> losable_device::compile(const kernels::program& p) {
  result<void> ok = call();
  if (!ok) return tl::unexpected<error>(ok.error());
  return on_->cpu->compile(p);
}

result<std::unique_ptr<engine::command_list>> losable_device::record(
    std::span<const engine::dispatch> phases) {
  result<void> ok = call();
  if (!ok) return tl::unexpected<error>(ok.error());
  return on_->cpu->record(phases);
}

result<void> losable_device::submit(engine::command_list& list) {
  result<void> ok = call();
  if (!ok) return ok;
  std::lock_guard lock(on_->running);
  ok = on_->cpu->submit(list);
  return ok ? on_->cpu->wait() : ok;
}

result<void> losable_device::wait() { return call(); }

result<void> losable_device::write(engine::device_memory& to, std::size_t offset,
                                   std::span<const std::byte> from) {
  result<void> ok = call();
  if (ok)
    std::memcpy(reinterpret_cast<std::byte*>(to.address()) + offset, from.data(), from.size());
  return ok;
}

result<void> losable_device::read(const engine::device_memory& from, std::size_t offset,
                                  std::span<std::byte> to) {
  result<void> ok = call();
  if (ok)
    std::memcpy(to.data(), reinterpret_cast<const std::byte*>(from.address()) + offset, to.size());
  return ok;
}

losable_engine start_losable(const std::string& shape, const std::string& quant,
                             std::size_t devices, engine::engine_options options) {
  losable_engine out;
  auto model = engine::model::open(tiny_model(shape, quant));
  EXPECT_TRUE(model.has_value()) << to_string(model.error());
  engine::device_settings settings;
  settings.cache_folder = test_folder();  // compiled once a process
  settings.self_test = false;
  settings.cpu_threads = 1;
  std::vector<std::unique_ptr<engine::device>> all;
  auto first = engine::open_device("cpu", settings);
  EXPECT_TRUE(first.has_value());
  all.push_back(std::move(*first));
  out.devices.push_back(nullptr);
  auto shared = std::make_shared<shared_cpu>();
  auto behind = engine::open_device("cpu", settings);
  EXPECT_TRUE(behind.has_value());
  shared->cpu = std::move(*behind);
  for (std::size_t d = 1; d < devices; d++) {
    auto made = std::make_unique<losable_device>(shared, "losable:" + std::to_string(d));
    out.devices.push_back(made.get());
    all.push_back(std::move(made));
  }
  auto e = engine::inference_engine::start(std::move(*model), std::move(all), options);
  EXPECT_TRUE(e.has_value()) << to_string(e.error());
  out.engine = std::move(*e);
  return out;
}

}  // namespace terrane::test
