// Opens arbitrary bytes as a model's file, as the daemon does before it reads weights: header,
// metadata, tensors, the architecture's settings, the vocabulary. Each input is opened as it is and
// with a hole of zeros behind it, so that the short inputs which fuzzers like can hold whole
// models. A file must be refused with a message that can be shown and sent, or hold what it says:
// every tensor can be read, every metadata key has a value of one type, and the tokenizer works.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "engine/chat/chat_format.hpp"
#include "engine/gguf/text.hpp"
#include "engine/model/model.hpp"
#include "engine/tokenizer/from_gguf.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace {

using namespace terrane;
using namespace terrane::engine;

// Room for the tensors of the seeds, which are header and metadata only.
constexpr off_t hole_bytes = 64 * 1024;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "gguf_fuzz: %s\n", what);
  std::abort();
}

// Every error goes into a log line and into JSON.
void check_error(const error& e) {
  require(!e.message.empty() && !e.where.empty(), "a refusal does not say what or where");
  require(gguf::is_utf8(e.message) && gguf::is_utf8(e.where), "a refusal is not UTF-8");
  require(e.message.size() < 4096, "a refusal of more than 4096 bytes");
}

template <class T>
bool taken(const result<T>& outcome) {
  if (!outcome) check_error(outcome.error());
  return outcome.has_value();
}

void check_metadata(const gguf::metadata& meta) {
  for (const auto& entry : meta.entries()) {
    require(meta.has(entry.key), "a key that is listed cannot be found");
    const bool text = taken(meta.text(entry.key)), real = taken(meta.real(entry.key)),
               truth = taken(meta.boolean(entry.key)),
               whole = taken(meta.integer<std::int64_t>(entry.key));
    require(text + real + truth + whole <= 1, "a value of two types");
    if (const auto texts = meta.texts(entry.key); taken(texts))
      require(texts->size() == entry.count, "an array of texts lost some");
    if (const auto numbers = meta.numbers<float>(entry.key); taken(numbers))
      require(numbers->size() == entry.count, "an array of numbers lost some");
    taken(meta.integer<std::uint32_t>(entry.key));
    taken(meta.numbers<std::uint32_t>(entry.key));
    taken(meta.booleans(entry.key));
  }
}

void check_tensors(const gguf::file& file) {
  for (const gguf::tensor& t : file.tensors()) {
    require(file.find(t.name) == &t, "a tensor that is listed cannot be found");
    std::vector<std::byte> row(t.row_bytes());
    require(taken(file.read_rows(t, 0, 1, row)), "the first row cannot be read");
    require(taken(file.read_rows(t, t.rows() - 1, 1, row)), "the last row cannot be read");
    require(!taken(file.read_rows(t, t.rows(), 1, row)), "a row behind the last can be read");
    require(!taken(file.read_rows(t, UINT64_MAX, 2, row)), "a row before the first can be read");
    std::vector<std::byte> all(t.bytes);
    require(taken(file.read(t, all)), "a tensor of an accepted file cannot be read");
  }
}

void check_blocks(const model& m) {
  std::uint64_t sum = 0;
  for (const weight_block& block : m.blocks()) {
    for (const block_tensor& t : block.tensors)
      require(t.source != nullptr && t.offset <= block.bytes && t.bytes <= block.bytes - t.offset,
              "a tensor lies outside its block");
    sum += block.bytes;
  }
  require(m.weight_bytes() == sum, "the blocks do not add up");
  require(m.config().by_layer.size() == m.config().layers, "a layer has no settings");
  for (part_index p = 0; p < m.parts().size(); ++p) {
    require(m.find_part(m.parts()[p].name) == p, "two parts have one name");
    require(m.part_bytes(p) <= sum, "a part is larger than the model");
  }
}

void check_tokenizer(const gguf::metadata& meta) {
  auto vocabulary = read_vocabulary(meta);
  if (!taken(vocabulary)) return;
  const auto words = tokenizer::make(std::move(*vocabulary));
  if (!taken(words)) return;
  const auto ids = words->encode("The 3 quick\n <s> \xC3\xA9\xFF", special_text::as_tokens);
  if (taken(ids)) {
    for (const token_id id : *ids) require(id < words->size(), "a token that does not exist");
    words->decode(*ids);
  }
  const auto format = chat_format::recognise(*words);
  if (!taken(format)) return;
  const std::array<chat_message, 1> chat = {{{chat_role::user, "Hello"}}};
  taken(format->encode(*words, chat));
}

void check_file(const std::string& path) {
  const auto file = gguf::file::open(path);
  const auto opened = model::open(path);
  require(!opened || file, "a model was made of a file that is refused");
  taken(opened);
  if (!taken(file)) return;
  check_metadata(file->meta());
  check_tensors(*file);
  check_tokenizer(file->meta());
  if (opened) check_blocks(**opened);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int memory = memfd_create("gguf_fuzz", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(memory);
  require(ftruncate(memory, 0) == 0, "ftruncate failed");
  require(pwrite(memory, data, size, 0) == static_cast<ssize_t>(size), "pwrite failed");
  check_file(path);
  require(ftruncate(memory, static_cast<off_t>(size) + hole_bytes) == 0, "ftruncate failed");
  check_file(path);
  return 0;
}
