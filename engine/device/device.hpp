// What the engine asks of a device: memory, compiled kernels, recorded command lists, copies.
//
// One implementation per kind (cpu/, vulkan/, cuda/). The engine owns devices; a device
// outlives all memory, kernels and command lists made from it. Addresses are 64-bit and go to
// kernels as they are.
//
// Threads: the step loop submits and waits from one thread at a time. allocate(), compile(),
// record(), write(), read() and the counters may be called from any thread meanwhile (a move
// prepares while the step loop runs).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/lang/program.hpp"
#include "kernels/result.hpp"

namespace terrane::engine {

enum class device_kind { cpu, vulkan, cuda };
const char* to_string(device_kind kind);

// Who a byte on a device belongs to. Every allocation has one.
// Staging is what this process writes for kernels, or they for it; it is not copied to other
// devices.
enum class memory_use : std::uint8_t { weights, kv, scratch, staging };
inline constexpr std::size_t memory_use_count = 4;
const char* to_string(memory_use use);

struct device_info {
  std::string name;  // stable: "cpu", "vulkan:UUID", "cuda:UUID"
  device_kind kind = device_kind::cpu;
  std::string description;  // the maker's name and the driver, for people
  std::string driver;       // identity of driver and version, for code caches and self-test results
  std::uint64_t memory_bytes = 0;  // what the device has in all
  bool host_memory = false;        // its memory is the host's (CPU, software or integrated GPU)
  // Of a matrix product, what its driver or compiler suggests: tokens taken together, at most, and
  // blocks (kernels::linear_spec). Defaults of device_tuning.
  std::uint32_t product_columns = 8;
  int product_blocks = 1;
  // The UUID of the physical card, the same for every driver that offers it; empty: no card of its
  // own. Devices of one card share its memory.
  std::string card;
};

// Bytes on a device, given back when destroyed. `host()` is where this process may read and write
// them directly, as fast as its own memory, or null. Aligned to 256 bytes at least.
//
// `content()` is a number for what the memory holds, 0 if nothing is said of it. A device may keep
// what is given back for a while and give it out again as it was, to who asks for the same content.
class device_memory {
 public:
  virtual ~device_memory() = default;
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  std::uint64_t address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  std::byte* host() const { return host_; }
  std::uint64_t content() const { return content_; }
  void set_content(std::uint64_t content) { content_ = content; }

 protected:
  device_memory(std::uint64_t address, std::size_t bytes, std::byte* host)
      : address_(address), bytes_(bytes), host_(host) {}

 private:
  std::uint64_t address_;
  std::size_t bytes_;
  std::byte* host_;
  std::uint64_t content_ = 0;
};

// A kernel program compiled for one device.
class device_kernel {
 public:
  virtual ~device_kernel() = default;
};

// Where a device runs the workgroups of a phase in turn: those side by side in x first, or in y.
enum class group_order : std::uint8_t { x_first, y_first };

// Memory that the workgroups of a phase read in the order of x, each some of its equal parts.
struct read_in_order {
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t parts = 0;
  bool operator==(const read_in_order&) const = default;
};

// One phase: a kernel over a grid of workgroups. It sees the memory written by the phases before
// it.
struct dispatch {
  const device_kernel* kernel = nullptr;
  std::uint32_t groups_x = 1;
  std::uint32_t groups_y = 1;
  std::array<std::uint64_t, kernels::max_arguments> arguments{};
  group_order order = group_order::x_first;  // a device that runs them all at once need not heed it
  // Matrices, one after another, for a device that has time to fetch them before the phase.
  std::array<read_in_order, 3> matrices{};
  bool operator==(const dispatch&) const = default;
};

// Bytes of one device's memory that are to lie in another's.
struct copy_range {
  const device_memory* from = nullptr;
  std::size_t from_offset = 0;
  device_memory* to = nullptr;
  std::size_t to_offset = 0;
  std::size_t bytes = 0;
};

// Phases recorded once and submitted often. What changes between steps lies in device memory.
class command_list {
 public:
  virtual ~command_list() = default;
  std::uint32_t launches = 0;  // dispatches in it
  // When it was recorded, the device had run all of its kernels before in lists that use it too: a
  // first run will not take longer than others.
  bool is_warm = false;
};

class device_tuning;  // engine/tuning/device_tuning.hpp

class device {
 public:
  virtual ~device() = default;
  const device_info& info() const { return info_; }

  // How kernels are laid out here: the defaults of the device until it is given another. What was
  // recorded before keeps to what it was recorded with. Any thread.
  std::shared_ptr<const device_tuning> tuning();
  void use_tuning(std::shared_ptr<const device_tuning> tuning);

  // Fails with no_room, naming the numbers, when the budget or the device does not suffice. With a
  // `content`, memory that holds it still is preferred: it says so then.
  result<std::unique_ptr<device_memory>> allocate(std::size_t bytes, memory_use use,
                                                  std::uint64_t content = 0);
  // Memory for what kernels write and this process then reads, at its own speed where the device
  // can do that: `host()` is not null then, and the bytes are this process's, not the device's.
  // Else as allocate(). Nothing is written to it by write() or copied to it. Any thread.
  virtual result<std::unique_ptr<device_memory>> allocate_results(std::size_t bytes) {
    return allocate(bytes, memory_use::scratch);
  }
  // Gives back to the driver what is kept for later. Any thread.
  virtual void trim() {}

  // Compiled code is cached by the program's text, in memory and, where the device has a cache
  // folder, on disk. The kernel lives as long as the device.
  virtual result<const device_kernel*> compile(const kernels::program& p) = 0;

  virtual result<std::unique_ptr<command_list>> record(std::span<const dispatch> phases) = 0;
  virtual result<void> submit(command_list& list) = 0;  // returns at once; lists run in order
  virtual result<void> wait() = 0;                      // until all that was submitted has ended

  // Copies between this process and memory of the device, complete on return. The caller keeps
  // apart what a running command list touches.
  virtual result<void> write(device_memory& to, std::size_t offset,
                             std::span<const std::byte> from) = 0;
  virtual result<void> read(const device_memory& from, std::size_t offset,
                            std::span<std::byte> to) = 0;
  // As write(), of what the next submitted list reads, which need not have arrived on return. By
  // the thread that submits, when no list runs; of several writes before a list the last counts.
  virtual result<void> write_for_next(device_memory& to, std::size_t offset,
                                      std::span<const std::byte> from) {
    return write(to, offset, from);
  }

  // Why memory of `from` cannot be copied to memory of this device without passing through this
  // process; empty where it can. The first question probes the path and compares what arrives.
  virtual const std::string& no_direct_path(device& from);
  // Copies along that path, complete on return. From any thread, several at once.
  virtual result<void> copy_direct(device& from, std::span<const copy_range> ranges);

  // Bytes held by a use, and by all; the limit on all (0: only the device's own).
  std::uint64_t used_bytes(memory_use use) const {
    return used_[static_cast<std::size_t>(use)].load();
  }
  std::uint64_t used_bytes() const;
  std::uint64_t budget_bytes() const { return budget_bytes_.load(); }
  // What allocate() keeps to: the budget, or all that the device has; never more than what other
  // devices of the same card leave.
  std::uint64_t limit_bytes() const;
  void set_budget_bytes(std::uint64_t bytes) { budget_bytes_.store(bytes); }
  // What the device has in use by everybody, as its driver says; 0 where it does not say.
  virtual std::uint64_t driver_used_bytes() const { return 0; }

  // What the device failed with, once it is lost: nothing on it works any more in this process.
  virtual std::optional<error> lost() const { return std::nullopt; }

  std::uint64_t launches() const { return launches_.load(); }

 protected:
  explicit device(device_info info);
  virtual result<std::unique_ptr<device_memory>> allocate_memory(std::size_t bytes,
                                                                 memory_use use) = 0;
  // Memory that was given back with this content and holds it still, or null.
  virtual std::unique_ptr<device_memory> take_kept(std::size_t, memory_use, std::uint64_t) {
    return nullptr;
  }
  // Says whether this device may keep memory, so that whoever finds no room on its card has it
  // trimmed. To be said no more before what trim() needs is destroyed.
  void keeps_memory(bool does);
  void count_launches(std::uint32_t n) { launches_ += n; }

  device_info info_;

 private:
  class accounted_memory;
  // What all open devices of one card hold, in this process.
  struct card_account {
    std::mutex admission;
    std::atomic<std::uint64_t> used{0};
    std::vector<device*> keepers;  // of memory, under `admission`
  };
  static std::shared_ptr<card_account> account_of(const std::string& card);

  std::mutex tuning_guard_;
  std::shared_ptr<const device_tuning> tuning_;  // null: nobody has asked for it
  std::shared_ptr<card_account> card_;
  std::array<std::atomic<std::uint64_t>, memory_use_count> used_{};
  std::atomic<std::uint64_t> budget_bytes_{0};
  std::atomic<std::uint64_t> launches_{0};
};

}  // namespace terrane::engine
