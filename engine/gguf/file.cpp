#include "engine/gguf/file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/gguf/text.hpp"

namespace terrane::engine::gguf {
namespace {

// Each part is one open descriptor, and the usual limit is 1024. The largest published models have
// about 200 parts.
constexpr std::uint64_t max_parts = 512;

constexpr std::string_view count_key = "split.count";
constexpr std::string_view number_key = "split.no";
constexpr std::string_view tensors_key = "split.tensors.count";

// "-00002-of-00003.gguf", as the tools that split a model write it.
std::string part_suffix(std::uint64_t number, std::uint64_t count) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), "-%05llu-of-%05llu.gguf",
                                   static_cast<unsigned long long>(number + 1),
                                   static_cast<unsigned long long>(count));
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string part_name(std::uint64_t number, std::uint64_t count) {
  return "part " + std::to_string(number + 1) + " of " + std::to_string(count);
}

}  // namespace

result<file> file::open(const std::filesystem::path& path) {
  auto parts = open_parts(path.string());
  if (!parts) {
    return tl::unexpected(parts.error());
  }
  file out;
  if (auto adopted = out.adopt(std::move(*parts)); !adopted) {
    return tl::unexpected(adopted.error());
  }
  if (auto counted = out.check_tensor_count(); !counted) {
    return tl::unexpected(counted.error());
  }
  return out;
}

result<file::part> file::open_part(const std::string& path) {
  // Not blocking: a FIFO offered as a model must not hang the daemon.
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) {
    const auto code = errno == ENOENT ? error_code::not_found : error_code::io;
    return fail(code, std::string("cannot be opened: ") + std::strerror(errno), path);
  }
  part out{.handle = descriptor(number), .path = path, .bytes = 0, .front = {}};
  struct stat status {};
  if (::fstat(number, &status) != 0) {
    return fail(error_code::io, std::string("cannot be examined: ") + std::strerror(errno), path);
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(error_code::invalid_input, "is not a regular file; expected a GGUF file", path);
  }
  out.bytes = static_cast<std::uint64_t>(status.st_size);
  auto front = read_header(number, out.bytes, path);
  if (!front) {
    return tl::unexpected(front.error());
  }
  out.front = std::move(*front);
  return out;
}

result<std::vector<file::part>> file::open_parts(const std::string& path) {
  auto given = open_part(path);
  if (!given) {
    return tl::unexpected(given.error());
  }
  const metadata& meta = given->front.meta;
  std::vector<part> parts;
  if (!meta.has(count_key)) {
    parts.push_back(std::move(*given));
    return parts;
  }
  const auto count = meta.integer<std::uint64_t>(count_key);
  const auto number = meta.integer_or<std::uint64_t>(number_key, 0);
  if (!count || !number) {
    return tl::unexpected(count ? number.error() : count.error());
  }
  if (*count == 0 || *count > max_parts || *number >= *count) {
    return fail(error_code::invalid_input,
                "says that it is split.no " + std::to_string(*number) + " of split.count " +
                    std::to_string(*count) + "; supported are 1 to " + std::to_string(max_parts) +
                    " parts, counted from 0",
                path);
  }
  const std::string suffix = part_suffix(*number, *count);
  if (*count > 1 && !path.ends_with(suffix)) {
    return fail(error_code::invalid_input,
                "is " + part_name(*number, *count) +
                    " of a split model, but its name does not end in " + suffix +
                    ", so the other parts cannot be found. Give the parts the names that "
                    "they were published with, in one folder (do not join them with cat)",
                path);
  }
  const std::string stem = path.substr(0, path.size() - suffix.size());
  for (std::uint64_t i = 0; i < *count; ++i) {
    auto next = i == *number ? std::move(given) : open_part(stem + part_suffix(i, *count));
    if (!next && next.error().code == error_code::not_found) {
      return fail(error_code::not_found, part_name(i, *count) + " of a split model is missing",
                  next.error().where);
    }
    if (!next) {
      return tl::unexpected(next.error());
    }
    if (auto fits = check_part(*next, i, *count); !fits) {
      return tl::unexpected(fits.error());
    }
    parts.push_back(std::move(*next));
  }
  return parts;
}

// Does the file that has the name of a part say that it is that part?
result<void> file::check_part(const part& of, std::uint64_t number, std::uint64_t count) {
  const auto its_count = of.front.meta.integer<std::uint64_t>(count_key);
  const auto its_number = of.front.meta.integer_or<std::uint64_t>(number_key, 0);
  if (!its_count || !its_number) {
    return tl::unexpected(its_count ? its_number.error() : its_count.error());
  }
  if (*its_count != count || *its_number != number) {
    return fail(error_code::invalid_input,
                "says that it is split.no " + std::to_string(*its_number) + " of split.count " +
                    std::to_string(*its_count) + "; by its name it should be split.no " +
                    std::to_string(number) + " of " + std::to_string(count),
                of.path);
  }
  return {};
}

result<void> file::adopt(std::vector<part> parts) {
  version_ = parts.front().front.version;
  meta_ = std::move(parts.front().front.meta);
  std::size_t tensor_count = 0;
  for (const part& p : parts) {
    tensor_count += p.front.tensors.size();
  }
  tensors_.reserve(tensor_count);  // by_name_ refers to the names
  for (part& p : parts) {
    for (tensor& t : p.front.tensors) {
      t.split = static_cast<std::uint32_t>(paths_.size());
      tensors_.push_back(std::move(t));
      const tensor& added = tensors_.back();
      const auto [earlier, fresh] = by_name_.emplace(added.name, tensors_.size() - 1);
      if (!fresh) {
        return fail(error_code::invalid_input,
                    "tensor " + shown(added.name) + " is also in " +
                        paths_[tensors_[earlier->second].split],
                    p.path);
      }
    }
    bytes_ += p.bytes;
    paths_.push_back(std::move(p.path));
    descriptors_.push_back(std::move(p.handle));
  }
  return {};
}

result<void> file::check_tensor_count() const {
  if (!meta_.has(tensors_key)) {
    return {};
  }
  const auto expected = meta_.integer<std::uint64_t>(tensors_key);
  if (!expected) {
    return tl::unexpected(expected.error());
  }
  if (*expected != tensors_.size()) {
    return fail(error_code::invalid_input,
                "metadata key 'split.tensors.count' is " + std::to_string(*expected) +
                    ", but the " + std::to_string(paths_.size()) + " part(s) hold " +
                    std::to_string(tensors_.size()) + " tensors",
                meta_.path());
  }
  return {};
}

const tensor* file::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

result<const tensor*> file::require(std::string_view name) const {
  const tensor* found = find(name);
  if (found == nullptr) {
    return fail(error_code::invalid_input,
                "tensor " + shown(name) + " is missing; the file holds " +
                    std::to_string(tensors_.size()) + " tensors",
                meta_.path());
  }
  return found;
}

result<void> file::read(const tensor& of, std::span<std::byte> to) const {
  return read_rows(of, 0, of.rows(), to);
}

result<void> file::read_rows(const tensor& of, std::uint64_t first, std::uint64_t count,
                             std::span<std::byte> to) const {
  if (first > of.rows() || count > of.rows() - first) {
    return fail(error_code::invalid_input,
                "tensor " + shown(of.name) + " has " + std::to_string(of.rows()) + " rows; " +
                    std::to_string(count) + " from row " + std::to_string(first) +
                    " were asked for",
                paths_[of.split]);
  }
  const std::uint64_t bytes = count * of.row_bytes();
  if (to.size() != bytes) {
    return fail(error_code::invalid_input,
                std::to_string(count) + " rows of tensor " + shown(of.name) + " take " +
                    std::to_string(bytes) + " bytes; the buffer has " + std::to_string(to.size()),
                paths_[of.split]);
  }
  return read_at(of, of.offset + first * of.row_bytes(), to);
}

result<void> file::read_at(const tensor& of, std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const auto got =
        ::pread(descriptors_[of.split].number(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return fail(error_code::io,
                  "tensor " + shown(of.name) + ": " + std::to_string(to.size()) +
                      " bytes at offset " + std::to_string(offset) + " cannot be read: " +
                      (got < 0 ? std::strerror(errno) : "the file became shorter"),
                  paths_[of.split]);
    }
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace terrane::engine::gguf
