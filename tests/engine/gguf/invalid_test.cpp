// Every way that a GGUF file can be wrong that the reader knows: one message each, which names the
// file, the field and its value.
#include <cstring>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/gguf/file.hpp"
#include "tests/engine/gguf/raw_gguf.hpp"
#include "tests/engine/gguf/temporary_folder.hpp"

namespace terrane::engine::gguf {
namespace {

using test::raw;
using test::raw_gguf;
using test::raw_text;
using ::testing::HasSubstr;

constexpr auto huge = std::numeric_limits<std::uint64_t>::max();

struct bad_file {
  const char* name;
  std::string bytes;
  std::vector<std::string> says;
  error_code code = error_code::invalid_input;
};

void PrintTo(const bad_file& bad, std::ostream* out) { *out << bad.name; }

raw_gguf one_tensor() { return raw_gguf{}.tensor("w", {32}, 0, 0).data(128); }

std::string with_magic(const std::string& magic) {
  raw_gguf out = one_tensor();
  out.magic = magic;
  return out.bytes();
}

std::string with_version(std::uint32_t version) {
  raw_gguf out = one_tensor();
  out.version = version;
  return out.bytes();
}

std::string with_counts(std::uint64_t tensors, std::uint64_t entries) {
  raw_gguf out = one_tensor();
  out.tensor_count = tensors;
  out.entry_count = entries;
  return out.bytes();
}

std::string with_entry(const std::string& key, std::uint32_t type, const std::string& payload) {
  return one_tensor().entry(key, type, payload).bytes();
}

std::string with_tensor(const std::string& name, std::initializer_list<std::uint64_t> shape,
                        std::uint32_t type, std::uint64_t offset, std::uint64_t data = 4096) {
  return raw_gguf{}.tensor(name, shape, type, offset).data(data).bytes();
}

std::string many_entries() {
  raw_gguf out;
  for (int i = 0; i < 70000; ++i) {
    out.entry(std::to_string(i), 0, raw(std::uint8_t{1}));
  }
  return out.bytes();
}

std::string truncated(std::size_t bytes) { return one_tensor().bytes().substr(0, bytes); }

const std::vector<bad_file>& bad_files() {
  static const std::vector<bad_file> files{
      // What it is at all.
      {"empty", "", {"the first four bytes", "the file has 0 in all"}},
      {"three_bytes", "GGU", {"the first four bytes", "truncated"}},
      {"text", with_magic("helo"), {"'helo'", "not a GGUF file"}},
      {"lfs_pointer", "version https://git-lfs.github.com/spec/v1\n", {"Git LFS pointer"}},
      {"html", "<!DOCTYPE html><html></html>", {"a web page"}},
      {"zip", "PK\x03\x04rest", {"a ZIP archive"}},
      {"ggml", with_magic("lmgg"), {"before GGUF"}},
      {"big_endian_magic", with_magic("FUGG"), {"big-endian"}},
      {"big_endian_version",
       with_version(0x03000000),
       {"version 50331648", "big-endian"},
       error_code::unsupported},
      {"version_0",
       with_version(0),
       {"version 0 ", "supported are 2 and 3"},
       error_code::unsupported},
      {"version_1",
       with_version(1),
       {"version 1 ", "supported are 2 and 3"},
       error_code::unsupported},
      {"version_4",
       with_version(4),
       {"version 4 ", "supported are 2 and 3"},
       error_code::unsupported},
      // Counts.
      {"no_counts", truncated(8), {"the header", "the number of tensors", "offset 8"}},
      {"no_entry_count", with_counts(0, 0).substr(0, 16), {"the number of metadata entries"}},
      {"tensor_count", with_counts(huge, 0), {"the number of tensors is 18446744073709551615"}},
      {"entry_count", with_counts(0, huge), {"metadata entries is 18446744073709551615"}},
      {"entry_count_just_too_large", with_counts(1, 100), {"metadata entries is 100", "room for"}},
      {"too_many_entries",
       many_entries(),
       {"metadata entries is 70000", "up to 65536"},
       error_code::unsupported},
      // Keys and values.
      {"key_length",
       with_counts(0, 1).substr(0, 24) + raw(huge) + std::string(64, 'x'),
       {"metadata entry 0 of 1", "the key", "18446744073709551615 bytes expected"}},
      {"key_too_long",
       with_entry(std::string(65536, 'k'), 0, "\1"),
       {"the key is 65536 bytes long", "up to 65535"}},
      {"empty_key", with_entry("", 0, "\1"), {"metadata entry 0", "the key is empty"}},
      {"key_not_utf8", with_entry("a\xC0\x80", 0, "\1"), {"the key is not UTF-8: 'a\\xc0\\x80'"}},
      {"key_twice",
       one_tensor().entry("a.b", 0, "\1").entry("a.b", 0, "\1").bytes(),
       {"metadata key 'a.b' appears twice"}},
      {"value_type", with_entry("k", 13, "\1"), {"metadata key 'k'", "value type is 13"}},
      {"value_type_huge", with_entry("k", ~0U, "\1"), {"value type is 4294967295"}},
      {"bool", with_entry("k", 7, "\2"), {"metadata key 'k'", "a bool is 2; expected 0 or 1"}},
      {"value_truncated",
       raw_gguf{}.entry("k", 10, "1234567").header(),
       {"metadata key 'k'", "8 bytes"}},
      {"string_length",
       with_entry("k", 8, raw(std::uint64_t{1} << 40)),
       {"metadata key 'k'", "the string", "1099511627776 bytes expected"}},
      {"array_type", with_entry("k", 9, raw(99U) + raw(std::uint64_t{1})), {"element type is 99"}},
      {"nested_array",
       one_tensor().array("k", 9, 1, raw(0U) + raw(std::uint64_t{1}) + "\1").bytes(),
       {"metadata key 'k'", "arrays of arrays"},
       error_code::unsupported},
      {"array_length",
       one_tensor().array("k", 6, huge / 2, "").bytes(),
       {"metadata key 'k'", "9223372036854775807 items of 4 bytes"}},
      {"array_length_overflows",
       one_tensor().array("k", 10, (std::uint64_t{1} << 61) + 1, "12345678").bytes(),
       {"2305843009213693953 items of 8 bytes"}},
      {"array_of_strings_length",
       one_tensor().array("k", 8, std::uint64_t{1} << 50, "").bytes(),
       {"1125899906842624 items of 8 bytes"}},
      {"array_string_length",
       one_tensor().array("k", 8, 2, raw_text("a") + raw(huge)).bytes(),
       {"metadata key 'k', element 1", "18446744073709551615 bytes"}},
      {"alignment_type",
       with_entry("general.alignment", 8, raw_text("32")),
       {"'general.alignment' is string"}},
      {"alignment_0", with_entry("general.alignment", 4, raw(0U)), {"'general.alignment' is 0"}},
      {"alignment_33", with_entry("general.alignment", 4, raw(33U)), {"is 33", "a power of two"}},
      {"alignment_2_31", with_entry("general.alignment", 4, raw(1U << 31)), {"is 2147483648"}},
      // Tensors.
      {"tensor_name_empty", with_tensor("", {1}, 0, 0), {"tensor 0 of 1", "the name is empty"}},
      {"tensor_name_not_utf8", with_tensor("\xFF", {1}, 0, 0), {"the name is not UTF-8: '\\xff'"}},
      {"tensor_name_long",
       with_tensor(std::string(65, 'n'), {1}, 0, 0),
       {"the name is 65 bytes long", "up to 64"}},
      {"tensor_twice",
       raw_gguf{}.tensor("w", {1}, 0, 0).tensor("w", {1}, 0, 32).data(64).bytes(),
       {"tensor 'w' appears twice"}},
      {"no_dimensions",
       with_tensor("w", {}, 0, 0),
       {"tensor 'w'", "0 dimensions; supported are 1 to 4"}},
      {"five_dimensions", with_tensor("w", {1, 1, 1, 1, 1}, 0, 0), {"tensor 'w'", "5 dimensions"}},
      {"dimension_0", with_tensor("w", {32, 0}, 0, 0), {"tensor 'w'", "dimension 1 is 0"}},
      {"elements_overflow",
       with_tensor("w", {std::uint64_t{1} << 32, std::uint64_t{1} << 32}, 0, 0),
       {"tensor 'w'", "dimension 1 is 4294967296"}},
      {"elements_overflow_to_small",
       with_tensor("w", {std::uint64_t{1} << 63, 2, 4}, 0, 0),
       {"tensor 'w'", "does not fit 63 bits"}},
      {"bytes_overflow",
       with_tensor("w", {std::uint64_t{1} << 62}, 0, 0),
       {"tensor 'w'", "4611686018427387904 elements of F32"}},
      {"type_unknown",
       with_tensor("w", {32}, 77, 0),
       {"tensor 'w'", "tensor type 77 is not known", "Q8_K"},
       error_code::unsupported},
      {"type_withdrawn",
       with_tensor("w", {32}, 4, 0),
       {"tensor 'w'", "tensor type 4 (Q4_2) was withdrawn"},
       error_code::unsupported},
      {"row_not_whole_blocks",
       with_tensor("w", {576, 2}, 12, 0),
       {"tensor 'w'", "rows of 576", "Q4_K blocks of 256"}},
      {"offset_misaligned",
       with_tensor("w", {1}, 0, 4),
       {"tensor 'w'", "offset 4", "alignment 32"}},
      {"offset_beyond", with_tensor("w", {1}, 0, 8192), {"tensor 'w'", "offset 8192 of 4096"}},
      {"offset_huge",
       with_tensor("w", {1}, 0, huge - 31),
       {"tensor 'w'", "offset 18446744073709551584"}},
      {"data_short",
       with_tensor("w", {32}, 0, 0, 127),
       {"tensor 'w'", "128 bytes at offset 0 of 127", "truncated"}},
      {"data_missing",
       raw_gguf{}.tensor("w", {32}, 0, 0).header(),
       {"tensor 'w'", "of 0 bytes of tensor data"}},
      {"overlap",
       raw_gguf{}.tensor("a", {32}, 0, 32).tensor("b", {9}, 0, 0).data(160).bytes(),
       {"tensors 'b' (36 bytes", "'a'", "overlap"}},
      {"same_place",
       raw_gguf{}.tensor("a", {1}, 0, 0).tensor("b", {1}, 0, 0).data(32).bytes(),
       {"overlap"}},
      {"tensor_truncated",
       raw_gguf{}
           .tensor("a", {1}, 0, 0)
           .tensor("blk.0.ffn_down.weight", {1}, 0, 32)
           .header()
           .substr(0, 95),
       {"tensor 'blk.0.ffn_down.weight'", "a dimension", "truncated"}},
  };
  return files;
}

class gguf_invalid : public ::testing::TestWithParam<bad_file> {};

TEST_P(gguf_invalid, is_refused_by_name) {
  const test::temporary_folder folder;
  const auto path = folder.write("bad.gguf", GetParam().bytes);
  const auto opened = file::open(path);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, GetParam().code) << opened.error().message;
  EXPECT_EQ(opened.error().where, path);
  for (const std::string& part : GetParam().says) {
    EXPECT_THAT(opened.error().message, HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(each, gguf_invalid, ::testing::ValuesIn(bad_files()),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(gguf_damage, the_files_that_the_bad_ones_are_made_from_are_good) {
  const test::temporary_folder folder;
  const auto opened = file::open(folder.write("good.gguf", one_tensor().bytes()));
  EXPECT_TRUE(opened) << to_string(opened.error());
}

// A file with something of everything, for the two tests below.
std::string rich() {
  raw_gguf out;
  out.entry("general.alignment", 4, raw(32U)).entry("k", 8, raw_text("value"));
  out.array("tokens", 8, 3, raw_text("a") + raw_text("bc") + raw_text(""));
  out.array("scores", 6, 2, raw(1.0F) + raw(2.0F)).entry("split.count", 2, raw(std::uint16_t{1}));
  out.tensor("a", {32, 2}, 2, 0).tensor("b", {4, 2, 2, 1}, 0, 64).data(128);
  return out.bytes();
}

// Opens, and uses what a model loader would; true if the file was taken.
bool exercised(const std::filesystem::path& path) {
  const auto opened = file::open(path);
  if (!opened) {
    EXPECT_FALSE(opened.error().message.empty());
    return false;
  }
  for (const auto& entry : opened->meta().entries()) {
    EXPECT_TRUE(opened->meta().has(entry.key));
    static_cast<void>(opened->meta().text(entry.key));
    static_cast<void>(opened->meta().texts(entry.key));
    static_cast<void>(opened->meta().numbers<float>(entry.key));
    static_cast<void>(opened->meta().integer<std::uint32_t>(entry.key));
  }
  for (const tensor& t : opened->tensors()) {
    std::vector<std::byte> bytes(t.bytes);
    EXPECT_TRUE(opened->read(t, bytes)) << "a tensor of an accepted file lies inside it";
  }
  return true;
}

TEST(gguf_damage, every_prefix_is_refused) {
  const test::temporary_folder folder;
  const std::string whole = rich();
  ASSERT_TRUE(exercised(folder.write("m.gguf", whole)));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(exercised(folder.write("m.gguf", whole.substr(0, bytes)))) << bytes;
  }
}

TEST(gguf_damage, any_byte_may_be_anything) {
  const test::temporary_folder folder;
  const std::string whole = rich();
  const std::size_t header_bytes = whole.size() - 128;
  for (std::size_t at = 0; at < header_bytes; ++at) {
    for (const int change : {1, 2, 0x10, 0x7F, 0x80, 0xFF}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      exercised(folder.write("m.gguf", damaged));
    }
  }
}

TEST(gguf_damage, any_word_may_be_absurd) {
  const test::temporary_folder folder;
  const std::string whole = rich();
  const std::uint64_t words[]{
      0, 1, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, std::uint64_t{1} << 62, std::uint64_t{1} << 63, huge};
  for (std::size_t at = 0; at + 8 <= whole.size() - 128; ++at) {
    for (const std::uint64_t word : words) {
      std::string damaged = whole;
      std::memcpy(damaged.data() + at, &word, sizeof word);
      exercised(folder.write("m.gguf", damaged));
    }
  }
}

}  // namespace
}  // namespace terrane::engine::gguf
