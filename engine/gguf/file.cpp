#include "engine/gguf/file.hpp"

#include <algorithm>
#include <cerrno>
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

void append_five_digits(std::string& to, std::uint64_t number) {
  const std::string digits = std::to_string(number);
  to.append(5 - std::min<std::size_t>(5, digits.size()), '0').append(digits);
}

// "-00002-of-00003.gguf", as the tools that split a model write it.
std::string part_suffix(std::uint64_t number, std::uint64_t count) {
  std::string out = "-";
  append_five_digits(out, number + 1);
  out += "-of-";
  append_five_digits(out, count);
  out += ".gguf";
  return out;
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
  const auto place = place_of(*given);
  if (!place) {
    return tl::unexpected(place.error());
  }
  if (place->count > 1) {
    return open_siblings(std::move(*given), *place);
  }
  std::vector<part> alone;
  alone.push_back(std::move(*given));
  return alone;
}

// Where in a split model a part says that it is. A file that says nothing is all of its model.
result<file::place> file::place_of(const part& of) {
  const metadata& meta = of.front.meta;
  const auto count = meta.integer_or<std::uint64_t>(count_key, 1);
  const auto number = meta.integer_or<std::uint64_t>(number_key, 0);
  if (!count || !number) {
    return tl::unexpected(count ? number.error() : count.error());
  }
  if (*count == 0 || *count > max_parts || *number >= *count) {
    return fail(error_code::invalid_input,
                "says that it is split.no " + std::to_string(*number) + " of split.count " +
                    std::to_string(*count) + "; supported are 1 to " + std::to_string(max_parts) +
                    " parts, counted from 0",
                of.path);
  }
  return place{*number, *count};
}

result<std::vector<file::part>> file::open_siblings(part given, place of_given) {
  const auto [given_number, count] = of_given;
  const std::string suffix = part_suffix(given_number, count);
  if (!given.path.ends_with(suffix)) {
    return fail(error_code::invalid_input,
                "is " + part_name(given_number, count) +
                    " of a split model, but its name does not end in " + suffix +
                    ", so the other parts cannot be found. Give the parts the names that "
                    "they were published with, in one folder (do not join them with cat)",
                given.path);
  }
  const std::string stem = given.path.substr(0, given.path.size() - suffix.size());
  std::vector<part> parts(count);
  parts[given_number] = std::move(given);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i == given_number) {
      continue;
    }
    auto sibling = open_sibling(stem + part_suffix(i, count), {i, count});
    if (!sibling) {
      return tl::unexpected(sibling.error());
    }
    parts[i] = std::move(*sibling);
  }
  return parts;
}

// Opens a part by its name, which says where it belongs; the file must say the same.
result<file::part> file::open_sibling(const std::string& path, place expected) {
  auto out = open_part(path);
  if (!out && out.error().code == error_code::not_found) {
    return fail(error_code::not_found,
                part_name(expected.number, expected.count) + " of a split model is missing", path);
  }
  if (!out) {
    return out;
  }
  const auto found = place_of(*out);
  if (!found) {
    return tl::unexpected(found.error());
  }
  if (found->number != expected.number || found->count != expected.count) {
    return fail(error_code::invalid_input,
                "says that it is split.no " + std::to_string(found->number) + " of split.count " +
                    std::to_string(found->count) + "; by its name it should be split.no " +
                    std::to_string(expected.number) + " of " + std::to_string(expected.count),
                path);
  }
  return out;
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
