// Reads the settings of an architecture from a file's metadata: integers and reals of keys that
// begin with its name ("llama.block_count"), each checked against its bounds. The first fault is
// kept, so that a reader asks for everything and looks once. Not thread safe; used while a model
// opens.
#pragma once

#include <optional>
#include <string>

#include "engine/model/model.hpp"

namespace terrane::engine {

class settings {
 public:
  // `architecture`: general.architecture, which its keys begin with.
  settings(const gguf::file& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  std::uint32_t integer(const std::string& key, std::uint32_t least, std::uint32_t most);
  std::uint32_t integer_or(const std::string& key, std::uint32_t otherwise, std::uint32_t least,
                           std::uint32_t most);
  float real_or(const std::string& key, float otherwise, float least, float most);
  std::string text_or(const std::string& key, const std::string& otherwise);

  void require(bool condition, const std::string& key, const std::string& message);
  void fault(error e);
  const std::optional<error>& first_fault() const { return first_; }

  const gguf::file& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }
  std::string full_key(const std::string& key) const { return architecture_ + "." + key; }
  std::string where(const std::string& key) const;  // for messages

 private:
  std::uint32_t checked(const std::string& key, const result<std::uint32_t>& v, std::uint32_t least,
                        std::uint32_t most);

  const gguf::file& file_;
  std::string architecture_;
  std::optional<error> first_;
};

// What every architecture states in the same keys: the model's and its attention's dimensions. The
// scale of scores is 1/sqrt(head size), and all layers are alike (one rotary table, no windows),
// until the caller says otherwise. `epsilon`: of norms, where the file has none.
model_config read_dimensions(settings& s, float epsilon);

// The rotary positions of rope.freq_base and its kin, with the file's factors (rope_freqs.weight).
rope_settings read_rope(settings& s, std::uint32_t head_size, kernels::rope_pairs pairs);

}  // namespace terrane::engine
