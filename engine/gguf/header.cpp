#include "engine/gguf/header.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include "engine/gguf/header_reader.hpp"
#include "engine/gguf/text.hpp"

namespace terrane::engine::gguf {
namespace {

constexpr std::uint64_t max_key_bytes = 65535;         // the specification's limit
constexpr std::uint64_t max_tensor_name_bytes = 64;    // the specification's limit
constexpr std::uint64_t max_dimensions = 4;            // the specification's limit
constexpr std::uint64_t max_entries = 1u << 16;        // files have about 50
constexpr std::uint64_t max_tensors = 1u << 20;        // the largest models have about 2000
constexpr std::uint64_t max_string_bytes = 16u << 20;  // chat templates reach about 100 kB
constexpr std::uint64_t max_alignment = 1u << 30;
constexpr std::uint64_t default_alignment = 32;
constexpr std::uint64_t min_entry_bytes = 8 + 1 + 4 + 1;  // key of one byte, type, value
constexpr std::uint64_t min_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;

// a * b, or nothing when it does not fit.
std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}

std::string number(std::uint64_t value) { return std::to_string(value); }

// What else a file may be that is offered as a model, told by its first bytes.
std::string_view guess(std::string_view magic) {
  if (magic == "vers") {
    return "a Git LFS pointer; fetch the real file with `git lfs pull`";
  }
  if (magic.starts_with("<")) {
    return "a web page, so the download went wrong";
  }
  if (magic == "FUGG") {
    return "big-endian GGUF; only little-endian is supported, convert it again";
  }
  if (magic == "lmgg" || magic == "tjgg" || magic == "fmgg" || magic == "algg") {
    return "a GGML file from before GGUF; convert the model again";
  }
  if (magic.starts_with("PK")) {
    return "a ZIP archive";
  }
  return "not a GGUF file";
}

void read_magic(header_reader& in) {
  in.set_context("the first four bytes");
  char magic[4];
  for (char& c : magic) {
    c = in.number<char>("the magic number");
  }
  const std::string_view seen(magic, sizeof magic);
  if (in.ok() && seen != "GGUF") {
    in.refuse("starts with " + shown(seen) + ", expected 'GGUF': this is " +
              std::string(guess(seen)));
  }
}

std::uint32_t read_version(header_reader& in) {
  in.set_context("the header");
  const auto version = in.number<std::uint32_t>("the version");
  if (!in.ok() || version == 2 || version == 3) {
    return version;
  }
  if (version != 0 && (version & 0xFFFF) == 0) {
    in.refuse("version " + number(version) +
                  " is that of a big-endian file; only little-endian is supported",
              error_code::unsupported);
  } else {
    in.refuse("GGUF version " + number(version) + " is not supported; supported are 2 and 3",
              error_code::unsupported);
  }
  return version;
}

// A count of items, at most `supported`, that each take at least `min_bytes` of what remains.
std::uint64_t read_count(header_reader& in, const char* what, std::uint64_t min_bytes,
                         std::uint64_t supported) {
  const auto count = in.number<std::uint64_t>(what);
  const std::uint64_t most = in.remaining() / min_bytes;
  if (in.ok() && count > most) {
    in.refuse(std::string(what) + " is " + number(count) +
              ", but the rest of the file has room for " + number(most) +
              " at most (truncated or damaged)");
  }
  if (in.ok() && count > supported) {
    in.refuse(
        std::string(what) + " is " + number(count) + "; supported are up to " + number(supported),
        error_code::unsupported);
  }
  return in.ok() ? count : 0;
}

value_type read_type(header_reader& in, const char* what) {
  const auto id = in.number<std::uint32_t>(what);
  if (in.ok() && id >= value_type_count) {
    in.refuse(in.context() + ": " + what + " is " + number(id) + "; known are 0 (u8) to 12 (f64)");
  }
  return in.ok() ? static_cast<value_type>(id) : value_type::u8;
}

void check_bool(header_reader& in, std::uint8_t value) {
  if (in.ok() && value > 1) {
    in.refuse(in.context() + ": a bool is " + number(value) + "; expected 0 or 1");
  }
}

void read_elements(header_reader& in, const metadata::entry& array) {
  if (array.element_type == value_type::string) {
    in.expect_room(array.count, value_bytes(value_type::string), "the array");
    for (std::uint64_t i = 0; i < array.count && in.ok(); ++i) {
      in.set_element(i);
      in.text("the string", max_string_bytes);
    }
  } else {
    in.skip(array.count, value_bytes(array.element_type), "the array");
  }
}

void read_value(header_reader& in, metadata::entry& e) {
  e.type = e.element_type = read_type(in, "the value type");
  e.count = 1;
  e.offset = in.position();
  if (e.type == value_type::array) {
    e.element_type = read_type(in, "the element type");
    e.count = in.number<std::uint64_t>("the array length");
    e.offset = in.position();
    if (in.ok() && e.element_type == value_type::array) {
      in.refuse(in.context() + ": arrays of arrays are not supported", error_code::unsupported);
    }
    read_elements(in, e);
  } else if (e.type == value_type::string) {
    in.text("the string", max_string_bytes);
  } else if (e.type == value_type::boolean) {
    check_bool(in, in.number<std::uint8_t>("the value"));
  } else {
    in.skip(1, value_bytes(e.type), "the value");
  }
}

// A key or a tensor's name: not empty, UTF-8.
std::string read_name(header_reader& in, const char* what, std::uint64_t max_bytes) {
  std::string name(in.text(what, max_bytes));
  if (in.ok() && name.empty()) {
    in.refuse(in.context() + ": " + what + " is empty");
  } else if (in.ok() && !is_utf8(name)) {
    in.refuse(in.context() + ": " + what + " is not UTF-8: " + shown(name));
  }
  return name;
}

// Entries with `key` not yet set, and the keys: the bytes still move while they are being read.
struct parsed_entries {
  std::vector<metadata::entry> entries;
  std::vector<std::uint64_t> key_offsets;
  std::vector<std::uint64_t> key_bytes;
};

parsed_entries read_entries(header_reader& in, std::uint64_t count) {
  parsed_entries out;
  out.entries.reserve(std::min<std::uint64_t>(count, 4096));
  std::unordered_set<std::string> seen;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    in.set_context("metadata entry " + number(i) + " of " + number(count));
    const std::string key = read_name(in, "the key", max_key_bytes);
    out.key_offsets.push_back(in.position() - key.size());
    out.key_bytes.push_back(key.size());
    in.set_context("metadata key " + shown(key));
    if (in.ok() && !seen.insert(key).second) {
      in.refuse(in.context() + " appears twice");
    }
    read_value(in, out.entries.emplace_back());
  }
  return out;
}

metadata make_metadata(std::string path, std::vector<char> bytes, parsed_entries parsed) {
  for (std::size_t i = 0; i < parsed.entries.size(); ++i) {
    parsed.entries[i].key = {bytes.data() + parsed.key_offsets[i], parsed.key_bytes[i]};
  }
  return {std::move(path), std::move(bytes), std::move(parsed.entries)};
}

void read_shape(header_reader& in, tensor& t) {
  t.dimensions = in.number<std::uint32_t>("the number of dimensions");
  if (in.ok() && (t.dimensions == 0 || t.dimensions > max_dimensions)) {
    in.refuse(in.context() + ": has " + number(t.dimensions) + " dimensions; supported are 1 to " +
              number(max_dimensions));
  }
  t.shape = {1, 1, 1, 1};
  std::uint64_t elements = 1;
  for (std::uint32_t d = 0; d < t.dimensions && in.ok(); ++d) {
    t.shape[d] = in.number<std::uint64_t>("a dimension");
    if (in.ok() && t.shape[d] == 0) {
      in.refuse(in.context() + ": dimension " + number(d) + " is 0; expected at least 1");
    }
    const auto next = product(elements, t.shape[d]);
    if (in.ok() && (!next || *next > std::uint64_t{std::numeric_limits<std::int64_t>::max()})) {
      in.refuse(in.context() + ": dimension " + number(d) + " is " + number(t.shape[d]) +
                "; the number of elements does not fit 63 bits");
    }
    elements = next.value_or(0);
  }
}

void read_tensor_type(header_reader& in, tensor& t) {
  const auto id = in.number<std::uint32_t>("the tensor type");
  if (!in.ok()) {
    return;
  }
  const auto type = ggml_type_of(id);
  if (!type) {
    const auto withdrawn = withdrawn_type_name(id);
    in.refuse(in.context() + ": tensor type " + number(id) +
                  (withdrawn.empty()
                       ? " is not known"
                       : " (" + std::string(withdrawn) + ") was withdrawn from the format") +
                  "; known are F32, F16, BF16, Q4_0 to Q8_K, IQ1 to IQ4, TQ1, TQ2, MXFP4, NVFP4, "
                  "Q1_0, integers and F64",
              error_code::unsupported);
    return;
  }
  t.type = *type;
}

void compute_bytes(header_reader& in, tensor& t) {
  if (!in.ok()) {
    return;
  }
  const auto& of = describe(t.type);
  if (t.shape[0] % of.block_elements != 0) {
    in.refuse(in.context() + ": rows of " + number(t.shape[0]) +
              " elements are not made of whole " + std::string(of.name) + " blocks of " +
              number(of.block_elements));
    return;
  }
  const auto bytes = product(t.elements() / of.block_elements, of.block_bytes);
  if (!bytes) {
    in.refuse(in.context() + ": " + number(t.elements()) + " elements of " + std::string(of.name) +
              " do not fit 64 bits of size");
    return;
  }
  t.bytes = *bytes;
}

// Tensors with `offset` still relative to the data.
std::vector<tensor> read_tensors(header_reader& in, std::uint64_t count) {
  std::vector<tensor> tensors;
  tensors.reserve(count);
  std::unordered_set<std::string> seen;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    in.set_context("tensor " + number(i) + " of " + number(count));
    tensor& t = tensors.emplace_back();
    t.name = read_name(in, "the name", max_tensor_name_bytes);
    in.set_context("tensor " + shown(t.name));
    if (in.ok() && !seen.insert(t.name).second) {
      in.refuse(in.context() + " appears twice");
    }
    read_shape(in, t);
    read_tensor_type(in, t);
    compute_bytes(in, t);
    t.offset = in.number<std::uint64_t>("the offset");
  }
  return tensors;
}

result<std::uint64_t> alignment_of(const metadata& meta) {
  constexpr std::string_view key = "general.alignment";
  auto alignment = meta.integer_or<std::uint64_t>(key, default_alignment);
  if (alignment && (!std::has_single_bit(*alignment) || *alignment > max_alignment)) {
    return fail(error_code::invalid_input,
                "metadata key 'general.alignment' is " + number(*alignment) +
                    "; expected a power of two up to " + number(max_alignment),
                meta.path());
  }
  return alignment;
}

// Makes offsets absolute; refuses a tensor that is misaligned or not inside the file.
result<void> place(std::vector<tensor>& tensors, std::uint64_t data_offset, std::uint64_t alignment,
                   std::uint64_t file_bytes, const std::string& path) {
  for (tensor& t : tensors) {
    const auto refuse = [&](std::string why) {
      return fail(error_code::invalid_input, "tensor " + shown(t.name) + ": " + std::move(why),
                  path);
    };
    if (t.offset % alignment != 0) {
      return refuse("offset " + number(t.offset) + " is not a multiple of the alignment " +
                    number(alignment));
    }
    const std::uint64_t room = file_bytes > data_offset ? file_bytes - data_offset : 0;
    if (t.offset > room || t.bytes > room - t.offset) {
      return refuse(number(t.bytes) + " bytes at offset " + number(t.offset) + " of " +
                    number(room) + " bytes of tensor data: the file is truncated (it has " +
                    number(file_bytes) + " bytes) or damaged");
    }
    t.offset += data_offset;
  }
  return {};
}

result<void> refuse_overlaps(const std::vector<tensor>& tensors, const std::string& path) {
  std::vector<const tensor*> order;
  order.reserve(tensors.size());
  for (const tensor& t : tensors) {
    order.push_back(&t);
  }
  std::ranges::sort(order, {}, &tensor::offset);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const tensor& before = *order[i - 1];
    const tensor& after = *order[i];
    if (after.offset - before.offset < before.bytes) {
      return fail(error_code::invalid_input,
                  "tensors " + shown(before.name) + " (" + number(before.bytes) +
                      " bytes at offset " + number(before.offset) + ") and " + shown(after.name) +
                      " (at offset " + number(after.offset) + ") overlap",
                  path);
    }
  }
  return {};
}

}  // namespace

result<header> read_header(int descriptor, std::uint64_t file_bytes, const std::string& path) {
  header_reader in(descriptor, file_bytes, path);
  header out;
  read_magic(in);
  out.version = read_version(in);
  const auto tensor_count = read_count(in, "the number of tensors", min_tensor_bytes, max_tensors);
  const auto entry_count =
      read_count(in, "the number of metadata entries", min_entry_bytes, max_entries);
  auto entries = read_entries(in, entry_count);
  if (in.ok()) {
    out.tensors = read_tensors(in, tensor_count);
  }
  if (!in.ok()) {
    return tl::unexpected(in.failure());
  }
  const std::uint64_t header_bytes = in.position();
  out.meta = make_metadata(path, std::move(in).take_bytes(), std::move(entries));
  const auto alignment = alignment_of(out.meta);
  if (!alignment) {
    return tl::unexpected(alignment.error());
  }
  out.data_offset = (header_bytes + *alignment - 1) & ~(*alignment - 1);
  if (auto placed = place(out.tensors, out.data_offset, *alignment, file_bytes, path); !placed) {
    return tl::unexpected(placed.error());
  }
  if (auto apart = refuse_overlaps(out.tensors, path); !apart) {
    return tl::unexpected(apart.error());
  }
  return out;
}

}  // namespace terrane::engine::gguf
