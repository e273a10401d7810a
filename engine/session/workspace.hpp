// What a device needs beside weights and KV pages to take part in a step: the step's inputs, the
// hidden state and everything between it and the logits, the rotary table, and the page tables.
// Made before the device gets its first part, so that a step never allocates.
//
// Belongs to the step loop; made by whoever prepares a device.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/device/device.hpp"
#include "engine/model/model.hpp"
#include "engine/sampling/sampler.hpp"

namespace terrane::engine {

// Bytes for attention's partial results where nobody says how many: a 256th of the memory that a
// device has of its own, 64 MiB at least.
std::uint64_t usual_attention_bytes(const device_info& on);

struct workspace_shape {
  std::uint32_t rows = 64;           // tokens of one step, a multiple of 8
  std::uint32_t slots = 4;           // sessions at once
  std::uint32_t context_tokens = 0;  // of a session
  // For attention's partial results; one row's at least are there.
  std::uint64_t attention_bytes = 0;
  // Rows of one step that may have logits. Of a large vocabulary these are the most of a workspace:
  // one for each session, and some for requests that want every one.
  std::uint32_t logit_rows() const { return std::min(rows, std::max(8U, std::bit_ceil(slots))); }
  std::uint32_t pages_per_slot() const {
    return (context_tokens + kernels::page_positions - 1) / kernels::page_positions;
  }
};

// A run of bytes in a workspace.
struct workspace_area {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Rows of the step as the kernels read them, in this order in memory, i32 each.
struct step_inputs {
  explicit step_inputs(std::uint32_t rows) : words(1 + std::size_t{4} * rows), capacity(rows) {}
  std::span<std::int32_t> tokens() { return {words.data() + 1, capacity}; }
  std::span<std::int32_t> positions() { return {words.data() + 1 + capacity, capacity}; }
  std::span<std::int32_t> slots() {
    return {words.data() + 1 + 2 * std::size_t{capacity}, capacity};
  }
  std::span<std::int32_t> logit_rows() {
    return {words.data() + 1 + 3 * std::size_t{capacity}, capacity};
  }
  std::int32_t& rows() { return words[0]; }
  std::vector<std::int32_t> words;
  std::uint32_t capacity;
};

class workspace {
 public:
  static result<std::unique_ptr<workspace>> make(device& on, const model& of,
                                                 const workspace_shape& shape);
  // The bytes that make() allocates, all of them on the device at the most.
  static std::uint64_t bytes(device& on, const model& of, const workspace_shape& shape);
  // Without memory, its addresses counted from 0: to see which kernels a step would have.
  static std::unique_ptr<workspace> on_paper(device& on, const model& of,
                                             const workspace_shape& shape);

  device& on() const { return device_; }
  const workspace_shape& shape() const { return shape_; }
  device_memory& memory() const { return *memory_; }
  std::uint64_t address(const workspace_area& area) const {
    return (memory_ == nullptr ? 0 : memory_->address()) + area.offset;
  }

  // Addresses of the step's inputs.
  std::uint64_t rows_word() const { return written_address(inputs_); }
  std::uint64_t tokens() const { return rows_word() + 4; }
  std::uint64_t positions() const { return tokens() + 4ULL * shape_.rows; }
  std::uint64_t slots() const { return positions() + 4ULL * shape_.rows; }
  std::uint64_t logit_rows() const { return slots() + 4ULL * shape_.rows; }
  // Tables are [slots][layers][pages_per_slot()] addresses, so that those of a session lie
  // together: a layer's first, and how many entries on a slot's next.
  std::uint64_t page_table(std::uint32_t layer) const {
    return written_address(page_tables_) + std::uint64_t{layer} * shape_.pages_per_slot() * 8;
  }
  std::uint32_t page_table_stride() const { return layers_ * shape_.pages_per_slot(); }

  // How many of a step's rows can have their partials of so many chunks here at once: those of all
  // rows of a long context would be more than its KV.
  std::uint32_t rows_attended_together(std::uint32_t rows, std::uint32_t chunks) const;

  struct areas {
    std::vector<workspace_area> ropes;             // a table for each of model_config::ropes
    workspace_area hidden;                         // f32 [rows][hidden]
    workspace_area branch;                         // what comes to hidden once it is normalised
    workspace_area selected;                       // the rows whose logits are wanted
    workspace_area q8_by_32, q8_by_256, f16, f32;  // activations for the next matrices
    workspace_area qkv, q, attended, gate_up;
    workspace_area products;  // what logits are made of: f32 [2 * rows with logits][logits_stride]
    workspace_area partials;  // f32 [chunk][rows attended together][head][head_size + 2]
    std::uint64_t total = 0;
  };
  const areas& at() const { return areas_; }
  std::uint32_t qkv_stride() const { return qkv_stride_; }  // floats
  std::uint32_t hidden_stride() const { return hidden_stride_; }
  std::uint32_t attended_stride() const { return attended_stride_; }
  std::uint32_t gate_up_stride() const { return gate_up_stride_; }
  std::uint32_t logits_stride() const { return logits_stride_; }

  // f32 [rows with logits][logits_stride()], and their peaks (kernels::logits_spec), in memory of
  // their own, which the host reads each step.
  std::uint64_t logits() const { return logits_ == nullptr ? 0 : logits_->address(); }
  std::uint64_t peaks() const { return logits() + peaks_offset(); }
  // The logits of a row, as many as `copy`, once the step has been waited for. `copy` takes them
  // where they cannot be read in place; then no peaks are given. Empty: they could not be read.
  step_logits read_logits(std::uint32_t row, std::span<float> copy) const;

  result<void> write_inputs(const step_inputs& inputs);
  // Sets a slot's tables of all layers: [layers][pages_per_slot()]; 0: the page is not here.
  result<void> write_page_tables(std::uint32_t slot, std::span<const std::uint64_t> addresses);

 private:
  workspace(device& on, const model& of, const workspace_shape& shape);
  std::uint64_t peaks_offset() const {
    return std::uint64_t{shape_.logit_rows()} * logits_stride_ * 4;
  }
  std::uint64_t logits_bytes() const;
  std::uint64_t written_bytes() const { return page_tables_.offset + page_tables_.bytes; }
  std::uint64_t written_address(const workspace_area& area) const {
    return (written_ == nullptr ? 0 : written_->address()) + area.offset;
  }

  device& device_;
  workspace_shape shape_;
  std::uint32_t layers_;
  std::uint32_t partial_row_bytes_;
  areas areas_;
  workspace_area inputs_, page_tables_;  // of written_
  std::uint32_t qkv_stride_ = 0, hidden_stride_ = 0, attended_stride_ = 0, gate_up_stride_ = 0,
                logits_stride_ = 0, peaks_ = 0;
  // What kernels use among themselves, what this process writes, and what it reads.
  std::unique_ptr<device_memory> memory_, written_, logits_;
};

constexpr std::uint32_t round_up_32(std::uint32_t n) { return (n + 31) / 32 * 32; }

}  // namespace terrane::engine
