#include "tests/bench/interpreter_device.hpp"

#include <cstring>
#include <new>

#include "kernels/interp/interpreter.hpp"

namespace terrane::bench {

namespace {

class heap_memory final : public engine::device_memory {
 public:
  heap_memory(std::byte* at, std::size_t bytes)
      : engine::device_memory(reinterpret_cast<std::uint64_t>(at), bytes, at) {}
  ~heap_memory() override { ::operator delete (host(), std::align_val_t{256}); }
};

class interpreted_kernel final : public engine::device_kernel {
 public:
  explicit interpreted_kernel(kernels::program p) : what(std::move(p)) {}
  kernels::program what;
};

class interpreted_list final : public engine::command_list {
 public:
  std::vector<engine::dispatch> phases;
};

class interpreter_device final : public engine::device {
 public:
  interpreter_device() : engine::device(describe()) {}

  result<const engine::device_kernel*> compile(const kernels::program& p) override {
    std::lock_guard lock(guard_);
    kernels_.push_back(std::make_unique<interpreted_kernel>(p));
    return kernels_.back().get();
  }
  result<std::unique_ptr<engine::command_list>> record(
      std::span<const engine::dispatch> phases) override {
    auto list = std::make_unique<interpreted_list>();
    list->phases.assign(phases.begin(), phases.end());
    list->launches = static_cast<std::uint32_t>(phases.size());
    return list;
  }
  result<void> submit(engine::command_list& list) override {
    count_launches(list.launches);
    for (const engine::dispatch& d : static_cast<interpreted_list&>(list).phases) {
      kernels::interpret(static_cast<const interpreted_kernel*>(d.kernel)->what, d.arguments,
                         d.groups_x, d.groups_y);
    }
    return {};
  }
  result<void> wait() override { return {}; }
  result<void> write(engine::device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override {
    std::memcpy(to.host() + offset, from.data(), from.size());
    return {};
  }
  result<void> read(const engine::device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override {
    std::memcpy(to.data(), from.host() + offset, to.size());
    return {};
  }

 private:
  static engine::device_info describe() {
    engine::device_info info;
    info.name = "interpreter";
    info.description = "the kernel language's interpreter";
    info.memory_bytes = std::uint64_t{64} << 30;
    info.host_memory = true;
    return info;
  }
  result<std::unique_ptr<engine::device_memory>> allocate_memory(std::size_t bytes,
                                                                 engine::memory_use) override {
    auto* at = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{256}));
    return std::make_unique<heap_memory>(at, bytes);
  }

  std::mutex guard_;
  std::vector<std::unique_ptr<interpreted_kernel>> kernels_;
};

}  // namespace

std::unique_ptr<engine::device> make_interpreter_device() {
  return std::make_unique<interpreter_device>();
}

}  // namespace terrane::bench
