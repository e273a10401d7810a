#include "tests/engine/live/tiny_model.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/bench/synth.hpp"

namespace terrane::test {

namespace {

class model_folder {
 public:
  model_folder()
      : path_(std::filesystem::temp_directory_path() /
              ("terrane-test-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~model_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

const std::filesystem::path& test_folder() {
  static const model_folder f;
  return f.path();
}

std::string tiny_model(const std::string& shape, const std::string& quant) {
  const std::filesystem::path file = test_folder() / (shape + "-" + quant + ".gguf");
  if (!std::filesystem::exists(file)) {
    result<void> ok = bench::synthesize(shape, quant, file, 7);
    EXPECT_TRUE(ok.has_value()) << to_string(ok.error());
  }
  return file;
}

std::string with_bytes(const std::string& file, const std::string& tensor, std::size_t offset,
                       const std::vector<unsigned char>& bytes) {
  result<engine::gguf::file> f = engine::gguf::file::open(file);
  EXPECT_TRUE(f.has_value());
  const std::string copy = file + ".changed";
  std::filesystem::copy_file(file, copy, std::filesystem::copy_options::overwrite_existing);
  std::fstream out(copy, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>((*f->require(tensor))->offset + offset));
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  return copy;
}

std::string with_shape(const std::string& file, const std::string& tensor,
                       const std::array<std::uint64_t, 2>& shape) {
  const std::string copy = file + ".reshaped";
  std::ifstream in(file, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  // A tensor's entry: its name with its length, the number of dimensions (u32), the dimensions.
  const std::uint64_t length = tensor.size();
  const std::string entry =
      std::string(reinterpret_cast<const char*>(&length), sizeof length) + tensor;
  const std::size_t at = bytes.find(entry);
  EXPECT_NE(at, std::string::npos);
  std::memcpy(&bytes[at + entry.size() + 4], shape.data(), sizeof shape);
  std::ofstream(copy, std::ios::binary) << bytes;
  return copy;
}

bool has_vulkan() {
  static const bool yes = [] {
    for (const engine::device_candidate& c : engine::list_devices({}))
      if (c.info.kind == engine::device_kind::vulkan && c.refused.empty()) return true;
    return false;
  }();
  return yes;
}

std::vector<std::string> two_devices() { return {"cpu", has_vulkan() ? "vulkan" : "cpu"}; }

engine::generate_request request(const engine::inference_engine& e, std::size_t prompt,
                                 std::uint32_t tokens) {
  engine::generate_request r;
  r.prompt = bench::random_tokens(e, prompt, 5);
  r.max_tokens = tokens;
  r.hash_logits = true;
  return r;
}

std::unique_ptr<engine::inference_engine> engine_on_two_cpus(
    const std::function<std::unique_ptr<engine::device>(std::unique_ptr<engine::device>)>& second,
    engine::engine_options options) {
  auto model = engine::model::open(tiny_model("tiny", "Q4_1"));
  EXPECT_TRUE(model.has_value()) << to_string(model.error());
  engine::device_settings settings;
  settings.cache_folder = test_folder();  // compiled once a process
  settings.self_test = false;
  std::vector<std::unique_ptr<engine::device>> devices;
  for (int d = 0; d < 2; d++) {
    auto cpu = engine::open_device("cpu", settings);
    EXPECT_TRUE(cpu.has_value()) << to_string(cpu.error());
    devices.push_back(d == 0 ? std::move(*cpu) : second(std::move(*cpu)));
  }
  options.context_tokens = 512;
  auto e = engine::inference_engine::start(std::move(*model), std::move(devices), options);
  EXPECT_TRUE(e.has_value()) << to_string(e.error());
  return e ? std::move(*e) : nullptr;
}

std::unique_ptr<engine::inference_engine> tiny_engine(const std::string& shape,
                                                      const std::string& quant,
                                                      std::uint32_t context_tokens) {
  bench::model_choice choice;
  choice.path = tiny_model(shape, quant);
  choice.devices = two_devices();
  choice.context_tokens = context_tokens;
  result<std::unique_ptr<engine::inference_engine>> e = bench::open_model(choice);
  EXPECT_TRUE(e.has_value()) << to_string(e.error());
  return e ? std::move(*e) : nullptr;
}

}  // namespace terrane::test
