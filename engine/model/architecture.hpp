// What an architecture is to the engine: how a file of it is read, and the graph that runs its
// parts. Each is one file (llama.cpp, gemma3.cpp) and one line of the table in architecture.cpp.
//
// read() finds the settings (settings.hpp) and lays out the tensors of each part
// (block_builder.hpp); record() writes the part's phases with the verbs of part_recorder.hpp,
// naming tensors by the places that read() gave them. Both are pure; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model.hpp"

namespace terrane::engine {

struct architecture_layout {
  model_config config;
  std::vector<model_part> parts;
  std::vector<weight_block> blocks;
};

struct architecture {
  std::string_view name;  // general.architecture
  result<architecture_layout> (*read)(const gguf::file& file);
  void (*record)(part_recorder& r, const model_part& part, part_half half);
};

extern const architecture llama, gemma3;

// Null if none has the name.
const architecture* find_architecture(std::string_view name);
std::string architecture_names();  // "llama, gemma3"

}  // namespace terrane::engine
