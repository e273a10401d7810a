// How kernels are laid out on a device: every choice that changes speed and never a bit of a result
// (see the numeric contract). A device begins with the defaults of its kind; the tuner (tuner.hpp)
// replaces them, one kernel and shape at a time, by what it measured there.
//
// Choices are kept by a kernel's shape and by how many rows (tokens) a step has. A device whose
// memory is the host's has two classes of rows, few (below 8) and many; on others each number of
// rows is its own, because it decides how much of the device is busy.
//
// Plain values. What a device has is never changed but replaced as a whole (device::use_tuning).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "engine/device/device.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::engine {

// Up to so many rows leave a GPU idle unless several workgroups or many warps share one.
inline constexpr std::uint32_t few_rows = 8;

// Of kernels::linear.
struct linear_layout {
  std::uint32_t columns = 1;  // tokens a workgroup computes together, at most
  int together = 1;           // blocks of K whose products are begun together
  int warps = 1;              // that share the segments of K
  std::uint32_t fetch_ahead = kernels::usual_fetch_ahead;  // bytes
  group_order order = group_order::x_first;
  int row_warps = 1;  // of a workgroup that take 32 rows of the matrix each
  bool operator==(const linear_layout&) const = default;
};

// Of kernels::activation.
struct activation_layout {
  int warps = 1;
  std::uint32_t parts = 1;  // workgroups that share a row
  bool operator==(const activation_layout&) const = default;
};

using kernel_layout = std::variant<linear_layout, kernels::attention_tuning, activation_layout>;

// "columns 16, together 2, ..."; what differs from `base` alone, or "" if nothing does.
std::string to_text(const kernel_layout& layout);
std::string difference(const kernel_layout& layout, const kernel_layout& base);

// A kernel over `rows` rows. Of a linear_spec or activation_spec only what the layout leaves open
// counts: the layout's own fields are not looked at.
struct kernel_shape {
  std::variant<kernels::linear_spec, kernels::attention_shape, kernels::activation_spec> what;
  std::uint32_t rows = 1;
};

const char* kernel_name(const kernel_shape& shape);
// What of a shape decides about its layout, in words: "few rows, K 576, Q4_1 576 + 192 + 192".
std::string class_of(const kernel_shape& shape, const device_info& on);

// The spec with a layout's fields, for so many rows (a product of fewer rows than columns takes
// fewer).
kernels::linear_spec laid_out(kernels::linear_spec shape, const linear_layout& layout,
                              std::uint32_t rows);
kernels::activation_spec laid_out(kernels::activation_spec shape, const activation_layout& layout);

// Warps of a workgroup that turns heads. A head is little work, and a GPU begins only so many
// workgroups a microsecond; a CPU's threads share them the better the more there are.
int rope_warps(const kernels::rope_kv_spec& shape, const device_info& on);

// Whether kernels::whole_attention takes a step of so many rows and chunks whose pages are all on
// the device: it saves the way of partial results through memory, but goes through the chunks of a
// row one round after another.
bool attends_at_once(const kernels::attention_shape& shape, const device_info& on,
                     std::uint32_t rows, std::uint32_t chunks);

// What was found for a shape.
struct tuned_kernel {
  kernel_layout chosen, by_default;
  double default_us = 0, chosen_us = 0;  // medians of a launch; 0: there was no time to measure it
  std::uint64_t version = 0;             // of the kernel's program; see tuning_file.hpp
  double gain() const { return chosen_us > 0 ? default_us / chosen_us - 1 : 0; }
};

class device_tuning {
 public:
  // The defaults of a device.
  explicit device_tuning(device_info of) : info_(std::move(of)) {}

  kernel_layout layout(const kernel_shape& shape) const;
  kernel_layout default_layout(const kernel_shape& shape) const;

  // What was found, by kernel_name() and class_of() with ": " between them.
  const std::map<std::string, tuned_kernel>& found() const { return found_; }
  const tuned_kernel* find(const kernel_shape& shape) const;
  void set(const kernel_shape& shape, tuned_kernel found);

 private:
  device_info info_;
  std::map<std::string, tuned_kernel> found_;
};

std::string tuning_key(const kernel_shape& shape, const device_info& on);

}  // namespace terrane::engine
