// Turns a part of a model into phases for one device: what an architecture's graph is written in.
// Each call appends dispatches for a step of a given size; kernels are compiled on the way. The
// first failure is kept and ends the recording. Used by one thread at a time.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/session/workspace.hpp"
#include "engine/tuning/device_tuning.hpp"
#include "engine/weights/weight_store.hpp"

namespace terrane::engine {

// Kernels compiled for a device, by what they were made from. Any thread.
class kernel_library {
 public:
  explicit kernel_library(device& on) : device_(on) {}
  // `key` tells apart what `make` would make.
  result<const device_kernel*> get(const std::string& key,
                                   const std::function<kernels::program()>& make);
  device& on() const { return device_; }

 private:
  device& device_;
  std::mutex guard_;
  std::unordered_map<std::string, const device_kernel*> kernels_;
};

// How many rows, chunks of context and rows with logits a recorded list is good for.
struct step_size {
  std::uint32_t rows = 1;
  std::uint32_t chunks = 1;
  std::uint32_t logits = 0;
  bool operator==(const step_size&) const = default;
};

// Rows of a step, from `first` on.
struct row_range {
  std::uint32_t first = 0, count = 0;
};

class part_recorder {
 public:
  part_recorder(const workspace& w, kernel_library& library, const model& of, step_size size);
  // Compiles and appends nothing, but tells of each kernel whose layout may be chosen.
  using shape_listener = std::function<void(const kernel_shape& shape)>;
  part_recorder(const workspace& on_paper, const model& of, step_size size, shape_listener listen);

  // The part whose weights the following calls read, in the order of model_part::blocks.
  void begin_part(const model_part& part, std::vector<resident_block_ptr> blocks);

  // A tensor of the part: block by its place in model_part::blocks, tensor by its place in the
  // block.
  struct tensor_place {
    std::size_t block = 0, tensor = 0;
  };

  void embed(tensor_place matrix);  // times model_config::embedding_scale
  // The rows whose logits are wanted, from hidden to selected.
  void select_rows();
  // RMSNorm of `from`, in every kind that `readers` need; quantised rows in pairs if asked for.
  void normalise(const workspace_area& from, std::uint32_t rows, tensor_place weight,
                 std::initializer_list<tensor_place> readers, bool in_pairs = false);
  // As they are, or silu(gate) * up, or gelu(gate) * up, of `from`, in every kind that `readers`
  // need. What no norm has made even: blocks of 256 are rounded in parts.
  void activate(kernels::activation_source source, const workspace_area& from, std::uint32_t stride,
                std::uint32_t up_offset, std::initializer_list<tensor_place> readers);
  // Matrices over the activations made last, side by side in `to`, each starting at a multiple
  // of 32.
  void multiply(std::initializer_list<tensor_place> matrices, const workspace_area& to,
                std::uint32_t stride);
  // hidden += the matrix over the activations made last.
  void add_product(tensor_place matrix);
  // hidden += RMSNorm of `from`.
  void add_normalised(const workspace_area& from, tensor_place weight);
  // The norms of each head of q and k, in models that have them.
  struct head_norms {
    tensor_place q, k;
  };
  void rotate_and_store_kv(std::uint32_t layer, std::optional<head_norms> norms = {});
  // Attention of a layer over the pages that are on this device, and then of what that gave with
  // what came from others. For one of attention_passes() after another: all use the same partials.
  // `attention_is_read_by` says before which matrix reads it, round_attended() after that its
  // activations are made: with few rows on a GPU by the kernel that combines.
  void attention_is_read_by(tensor_place matrix) {
    reads_attention_ = matrix;
    attention_is_rounded_ = false;
  }
  void attend_here(std::uint32_t layer, row_range rows);
  void combine(std::uint32_t layer, row_range rows);
  void round_attended();
  std::vector<row_range> attention_passes() const;
  // Both in one kernel, where all pages are on this device and it pays.
  bool attends_at_once(std::uint32_t layer) const;
  void attend_at_once(std::uint32_t layer);
  // Of the rows that want them: a head whose first block is its norm and whose second is its
  // matrix. Where its activations are quantised they come in pairs, as rounding them once moves
  // the likeliest token more often than all of the layers do (kernels/README.md), and their rows
  // are few.
  void give_logits();

  const workspace& where() const { return workspace_; }
  const step_size& size() const { return size_; }
  std::vector<dispatch>& phases() { return phases_; }
  const std::optional<error>& failure() const { return failure_; }

 private:
  const block_tensor& tensor(tensor_place p) const;
  std::uint64_t address(tensor_place p) const;
  kernels::activation_set kinds(std::initializer_list<tensor_place> readers) const;
  void append(const std::string& key, const std::function<kernels::program()>& make,
              kernels::grid grid, std::initializer_list<std::uint64_t> arguments,
              dispatch like = {});

  kernel_layout layout_of(const kernel_shape& shape) const;

  // The product of matrices that `multiply` records, with where it goes.
  struct product {
    std::initializer_list<tensor_place> matrices;
    std::uint64_t to = 0;
    std::uint32_t stride = 0, rows = 0;
    bool added = false;  // to what is there
  };
  void record(const product& p);
  kernels::activation_spec rounded_for(std::initializer_list<tensor_place> readers);
  bool rounds_while_combining() const;
  void combine_rounded(std::uint32_t layer, row_range rows);

  const workspace& workspace_;
  kernel_library* library_;  // null: shapes are told instead
  shape_listener listen_;
  const model& model_;
  std::shared_ptr<const device_tuning> tuning_;
  step_size size_;
  const model_part* part_ = nullptr;
  std::vector<resident_block_ptr> blocks_;
  tensor_place reads_attention_;
  bool attention_is_rounded_ = false;
  bool made_in_parts_ = false;  // how the activations made last are rounded
  std::vector<dispatch> phases_;
  std::optional<error> failure_;
};

}  // namespace terrane::engine
