#include "engine/gguf/writer.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "engine/gguf/text.hpp"

namespace terrane::engine::gguf {
namespace {

constexpr std::uint32_t version = 3;

std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) & ~(alignment - 1);
}

template <class T>
constexpr value_type type_of() {
  if constexpr (std::same_as<T, std::uint8_t>) return value_type::u8;
  if constexpr (std::same_as<T, std::int8_t>) return value_type::i8;
  if constexpr (std::same_as<T, std::uint16_t>) return value_type::u16;
  if constexpr (std::same_as<T, std::int16_t>) return value_type::i16;
  if constexpr (std::same_as<T, std::uint32_t>) return value_type::u32;
  if constexpr (std::same_as<T, std::int32_t>) return value_type::i32;
  if constexpr (std::same_as<T, float>) return value_type::f32;
  if constexpr (std::same_as<T, bool>) return value_type::boolean;
  if constexpr (std::same_as<T, std::uint64_t>) return value_type::u64;
  if constexpr (std::same_as<T, std::int64_t>) return value_type::i64;
  return value_type::f64;
}

tl::unexpected<error> io_failure(const char* what, const std::string& path) {
  return fail(error_code::io, std::string(what) + ": " + std::strerror(errno), path);
}

}  // namespace

result<writer> writer::create(const std::filesystem::path& path, std::uint32_t alignment) {
  writer out;
  out.path_ = path.string();
  if (!std::has_single_bit(alignment)) {
    return fail(error_code::invalid_input,
                "alignment " + std::to_string(alignment) + " is not a power of two", out.path_);
  }
  const std::string partial = out.path_ + ".partial";
  out.handle_ = descriptor(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (out.handle_.number() < 0) {
    return io_failure("cannot be created", partial);
  }
  out.partial_path_ = partial;
  out.alignment_ = alignment;
  out.written_bytes_ = std::make_unique<std::atomic<std::uint64_t>>(0);
  if (alignment != default_alignment) {
    out.put("general.alignment", alignment);
  }
  return out;
}

writer::~writer() {
  if (handle_.number() >= 0 && !partial_path_.empty()) {
    ::unlink(partial_path_.c_str());
  }
}

void writer::refuse(std::string message) {
  if (refusal_.empty()) {
    refusal_ = std::move(message);
  }
}

void writer::append(const void* bytes, std::size_t count) {
  entries_.append(static_cast<const char*>(bytes), count);
}

void writer::append(std::string_view text) {
  append_number(std::uint64_t{text.size()});
  entries_.append(text);
}

void writer::add_key(std::string_view key, value_type type) {
  if (key.empty() || !names_.insert(std::string(key)).second) {
    refuse("metadata key " + shown(key) + " is empty or was put twice");
  }
  append(key);
  append_number(static_cast<std::uint32_t>(type));
  ++entry_count_;
}

template <scalar_value T>
void writer::put(std::string_view key, T value) {
  add_key(key, type_of<T>());
  append_number(value);
}

void writer::put(std::string_view key, std::string_view value) {
  add_key(key, value_type::string);
  append(value);
}

template <scalar_value T>
void writer::put_array(std::string_view key, std::span<const T> values) {
  add_key(key, value_type::array);
  append_number(static_cast<std::uint32_t>(type_of<T>()));
  append_number(std::uint64_t{values.size()});
  append(values.data(), values.size_bytes());
}

void writer::put_array(std::string_view key, std::span<const std::string> values) {
  add_key(key, value_type::array);
  append_number(static_cast<std::uint32_t>(value_type::string));
  append_number(std::uint64_t{values.size()});
  for (const std::string& value : values) {
    append(value);
  }
}

std::size_t writer::add_tensor(std::string_view name, ggml_type type,
                               std::span<const std::uint64_t> shape) {
  tensor t;
  t.name = name;
  t.type = type;
  t.shape = {1, 1, 1, 1};
  t.dimensions = static_cast<std::uint32_t>(shape.size());
  const auto& format = describe(type);
  if (name.empty() || !names_.insert('\0' + t.name).second) {
    refuse("tensor " + shown(name) + " has no name or was added twice");
  } else if (shape.empty() || shape.size() > 4 || std::ranges::count(shape, 0) != 0 ||
             shape[0] % format.block_elements != 0) {
    refuse("tensor " + shown(name) +
           " needs 1 to 4 dimensions of at least 1, the first a multiple of " +
           std::to_string(format.block_elements));
  } else {
    std::ranges::copy(shape, t.shape.begin());
    t.bytes = t.elements() / format.block_elements * format.block_bytes;
  }
  t.offset = data_bytes_;
  data_bytes_ = aligned(data_bytes_ + t.bytes, alignment_);
  tensors_.push_back(std::move(t));
  return tensors_.size() - 1;
}

void writer::append_tensor(const tensor& of) {
  append(of.name);
  append_number(of.dimensions);
  append(of.shape.data(), of.dimensions * sizeof(std::uint64_t));
  append_number(static_cast<std::uint32_t>(of.type));
  append_number(of.offset);
}

result<void> writer::begin_data() {
  if (!refusal_.empty()) {
    return fail(error_code::invalid_input, refusal_, path_);
  }
  const std::string entries = std::exchange(entries_, {});
  entries_ = "GGUF";
  append_number(version);
  append_number(std::uint64_t{tensors_.size()});
  append_number(entry_count_);
  entries_ += entries;
  for (const tensor& t : tensors_) {
    append_tensor(t);
  }
  entries_.resize(aligned(entries_.size(), alignment_));
  for (tensor& t : tensors_) {
    t.offset += entries_.size();
  }
  if (auto done = write_at(0, std::as_bytes(std::span(entries_))); !done) {
    return done;
  }
  if (::ftruncate(handle_.number(), static_cast<off_t>(entries_.size() + data_bytes_)) != 0) {
    return io_failure("cannot be extended", partial_path_);
  }
  return {};
}

result<void> writer::write(std::size_t index, std::uint64_t offset,
                           std::span<const std::byte> bytes) {
  const tensor& t = tensors_[index];
  if (offset > t.bytes || bytes.size() > t.bytes - offset) {
    return fail(error_code::invalid_input,
                "tensor " + shown(t.name) + " has " + std::to_string(t.bytes) + " bytes; " +
                    std::to_string(bytes.size()) + " at " + std::to_string(offset) + " do not fit",
                path_);
  }
  if (auto done = write_at(t.offset + offset, bytes); !done) {
    return done;
  }
  written_bytes_->fetch_add(bytes.size(), std::memory_order_relaxed);
  return {};
}

result<void> writer::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const auto put =
        ::pwrite(handle_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      return io_failure("cannot be written", partial_path_);
    }
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

result<void> writer::finish() {
  std::uint64_t declared = 0;
  for (const tensor& t : tensors_) {
    declared += t.bytes;
  }
  const std::uint64_t written = written_bytes_->load();
  if (written != declared) {
    return fail(error_code::invalid_input,
                std::to_string(written) + " bytes of tensor data were written, " +
                    std::to_string(declared) + " were declared",
                path_);
  }
  if (::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    return io_failure("cannot take its name", path_);
  }
  partial_path_.clear();
  return {};
}

template void writer::put(std::string_view, std::uint8_t);
template void writer::put(std::string_view, std::int8_t);
template void writer::put(std::string_view, std::uint16_t);
template void writer::put(std::string_view, std::int16_t);
template void writer::put(std::string_view, std::uint32_t);
template void writer::put(std::string_view, std::int32_t);
template void writer::put(std::string_view, float);
template void writer::put(std::string_view, bool);
template void writer::put(std::string_view, std::uint64_t);
template void writer::put(std::string_view, std::int64_t);
template void writer::put(std::string_view, double);
template void writer::put_array(std::string_view, std::span<const std::uint8_t>);
template void writer::put_array(std::string_view, std::span<const std::int8_t>);
template void writer::put_array(std::string_view, std::span<const std::uint32_t>);
template void writer::put_array(std::string_view, std::span<const std::int32_t>);
template void writer::put_array(std::string_view, std::span<const std::uint64_t>);
template void writer::put_array(std::string_view, std::span<const float>);
template void writer::put_array(std::string_view, std::span<const bool>);

}  // namespace terrane::engine::gguf
