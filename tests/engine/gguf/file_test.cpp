#include "engine/gguf/file.hpp"

#include <cstdlib>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/engine/gguf/raw_gguf.hpp"
#include "tests/engine/gguf/temporary_folder.hpp"

namespace terrane::engine::gguf {
namespace {

using test::raw;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two tensors: 3 rows of 4 floats, then 2 rows of one Q8_0 block.
test::raw_gguf two_tensors() {
  test::raw_gguf out;
  out.entry("general.architecture", 8, test::raw_text("llama"));
  out.tensor("a.weight", {4, 3}, 0, 0);
  out.tensor("b.weight", {32, 2}, 8, 64);
  return out.data(64 + 68);
}

file opened(const std::filesystem::path& path) {
  auto result = file::open(path);
  if (!result) {
    ADD_FAILURE() << to_string(result.error());
    std::abort();
  }
  return std::move(*result);
}

std::vector<std::byte> counting(std::size_t from, std::size_t count) {
  std::vector<std::byte> out;
  for (std::size_t i = from; i < from + count; ++i) {
    out.push_back(static_cast<std::byte>(i));
  }
  return out;
}

class gguf_file : public ::testing::Test {
 protected:
  test::temporary_folder folder_;
};

TEST_F(gguf_file, describes_its_tensors) {
  const auto bytes = two_tensors().bytes();
  const file f = opened(folder_.write("m.gguf", bytes));
  EXPECT_EQ(f.version(), 3U);
  EXPECT_EQ(f.bytes(), bytes.size());
  EXPECT_THAT(f.paths(), ElementsAre(folder_.at("m.gguf").string()));
  ASSERT_EQ(f.tensors().size(), 2U);
  const tensor& a = f.tensors()[0];
  EXPECT_EQ(a.name, "a.weight");
  EXPECT_EQ(a.type, ggml_type::f32);
  EXPECT_EQ(a.dimensions, 2U);
  EXPECT_THAT(a.shape, ElementsAre(4, 3, 1, 1));
  EXPECT_EQ(a.bytes, 48U);
  EXPECT_EQ(a.rows(), 3U);
  EXPECT_EQ(a.row_bytes(), 16U);
  EXPECT_EQ(a.offset, bytes.size() - 132);
  const tensor* b = f.find("b.weight");
  ASSERT_EQ(b, &f.tensors()[1]);
  EXPECT_EQ(b->type, ggml_type::q8_0);
  EXPECT_EQ(b->bytes, 68U);
  EXPECT_EQ(b->row_bytes(), 34U);
}

TEST_F(gguf_file, reads_version_2_alike) {
  auto old = two_tensors();
  old.version = 2;
  const file f = opened(folder_.write("m.gguf", old.bytes()));
  EXPECT_EQ(f.version(), 2U);
  EXPECT_EQ(f.tensors().size(), 2U);
}

TEST_F(gguf_file, reads_tensors_and_rows) {
  const file f = opened(folder_.write("m.gguf", two_tensors().bytes()));
  const tensor& b = *f.require("b.weight").value();
  std::vector<std::byte> all(b.bytes);
  ASSERT_TRUE(f.read(b, all));
  EXPECT_EQ(all, counting(64, 68));
  std::vector<std::byte> row(b.row_bytes());
  ASSERT_TRUE(f.read_rows(b, 1, 1, row));
  EXPECT_EQ(row, counting(64 + 34, 34));
  EXPECT_TRUE(f.read_rows(b, 2, 0, {}));
}

TEST_F(gguf_file, survives_being_moved) {
  file first = opened(folder_.write("m.gguf", two_tensors().bytes()));
  const file second = std::move(first);
  EXPECT_EQ(second.meta().text("general.architecture"), "llama");
  std::vector<std::byte> all(48);
  EXPECT_TRUE(second.read(*second.find("a.weight"), all));
}

TEST_F(gguf_file, refuses_rows_and_buffers_that_do_not_fit) {
  const file f = opened(folder_.write("m.gguf", two_tensors().bytes()));
  const tensor& a = *f.find("a.weight");
  std::vector<std::byte> buffer(48);
  const auto rows = f.read_rows(a, 2, 2, std::span(buffer).first(32));
  ASSERT_FALSE(rows);
  EXPECT_THAT(rows.error().message, HasSubstr("'a.weight' has 3 rows; 2 from row 2"));
  EXPECT_FALSE(f.read_rows(a, ~std::uint64_t{0}, 2, buffer));
  const auto size = f.read(a, std::span(buffer).first(47));
  ASSERT_FALSE(size);
  EXPECT_THAT(size.error().message, HasSubstr("take 48 bytes; the buffer has 47"));
}

TEST_F(gguf_file, says_when_the_file_shrank_after_it_was_opened) {
  const auto path = folder_.write("m.gguf", two_tensors().bytes());
  const file f = opened(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::vector<std::byte> buffer(68);
  const auto read = f.read(*f.find("b.weight"), buffer);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, error_code::io);
  EXPECT_THAT(read.error().message, HasSubstr("became shorter"));
}

TEST_F(gguf_file, a_missing_tensor_is_named) {
  const file f = opened(folder_.write("m.gguf", two_tensors().bytes()));
  EXPECT_EQ(f.find("c.weight"), nullptr);
  const auto missing = f.require("c.weight");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().where, folder_.at("m.gguf"));
  EXPECT_THAT(missing.error().message, HasSubstr("'c.weight' is missing"));
}

TEST_F(gguf_file, honours_an_alignment_of_its_own) {
  test::raw_gguf aligned;
  aligned.alignment = 128;
  aligned.entry("general.alignment", 4, raw(std::uint32_t{128}));
  aligned.tensor("a", {1}, 0, 0).tensor("b", {1}, 0, 128).data(132);
  const file f = opened(folder_.write("m.gguf", aligned.bytes()));
  EXPECT_EQ(f.find("a")->offset % 128, 0U);
  std::vector<std::byte> value(4);
  ASSERT_TRUE(f.read(*f.find("b"), value));
  EXPECT_EQ(value, counting(128, 4));
}

TEST_F(gguf_file, takes_a_file_without_tensors) {
  const file f = opened(folder_.write("vocabulary.gguf", test::raw_gguf{}.bytes()));
  EXPECT_TRUE(f.tensors().empty());
}

TEST_F(gguf_file, refuses_what_is_no_regular_file) {
  const auto missing = file::open(folder_.at("missing.gguf"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, error_code::not_found);
  EXPECT_EQ(missing.error().where, folder_.at("missing.gguf"));
  EXPECT_FALSE(file::open(folder_.at("")));
  ASSERT_EQ(::mkfifo(folder_.at("pipe.gguf").c_str(), 0600), 0);
  const auto pipe = file::open(folder_.at("pipe.gguf"));
  ASSERT_FALSE(pipe);
  EXPECT_THAT(pipe.error().message, HasSubstr("not a regular file"));
}

// A model in `count` parts, each with one tensor of four bytes.
class gguf_split : public gguf_file {
 protected:
  struct says {
    std::uint16_t number;
    std::uint16_t count;
    std::string tensor;
  };

  std::filesystem::path part(const std::string& name, const says& what,
                             std::int32_t tensors_in_all = 3) const {
    test::raw_gguf out;
    if (what.number == 0) {
      out.entry("general.architecture", 8, test::raw_text("llama"));
    }
    out.entry("split.no", 2, raw(what.number));
    out.entry("split.count", 2, raw(what.count));
    out.entry("split.tensors.count", 5, raw(tensors_in_all));
    out.tensor(what.tensor, {1}, 0, 0).data(4);
    std::string bytes = out.bytes();
    bytes.back() = static_cast<char>(what.number);
    return folder_.write(name, bytes);
  }
  void three_parts() const {
    part("m-00001-of-00003.gguf", {0, 3, "a"});
    part("m-00002-of-00003.gguf", {1, 3, "b"});
    part("m-00003-of-00003.gguf", {2, 3, "c"});
  }
  std::string refusal(const std::string& name) const {
    const auto f = file::open(folder_.at(name));
    EXPECT_FALSE(f);
    return f ? "" : to_string(f.error());
  }
};

TEST_F(gguf_split, is_opened_by_any_part) {
  three_parts();
  for (const char* name :
       {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const file f = opened(folder_.at(name));
    EXPECT_EQ(f.meta().text("general.architecture"), "llama");
    EXPECT_EQ(f.paths().size(), 3U);
    EXPECT_EQ(f.paths()[0], folder_.at("m-00001-of-00003.gguf"));
    ASSERT_EQ(f.tensors().size(), 3U);
    for (std::uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(f.tensors()[i].split, i);
      std::vector<std::byte> value(4);
      ASSERT_TRUE(f.read(f.tensors()[i], value));
      EXPECT_EQ(value.back(), static_cast<std::byte>(i));
    }
  }
}

TEST_F(gguf_split, names_the_missing_part) {
  three_parts();
  std::filesystem::remove(folder_.at("m-00003-of-00003.gguf"));
  const auto message = refusal("m-00001-of-00003.gguf");
  EXPECT_THAT(message, HasSubstr("part 3 of 3 of a split model is missing"));
  EXPECT_THAT(message, HasSubstr(folder_.at("m-00003-of-00003.gguf").string()));
}

TEST_F(gguf_split, refuses_a_renamed_part) {
  part("renamed.gguf", {1, 3, "b"});
  EXPECT_THAT(refusal("renamed.gguf"),
              HasSubstr("is part 2 of 3 of a split model, but its name does not end in "
                        "-00002-of-00003.gguf"));
}

TEST_F(gguf_split, refuses_a_part_with_another_number_or_count) {
  three_parts();
  part("m-00002-of-00003.gguf", {2, 3, "b"});
  EXPECT_THAT(refusal("m-00001-of-00003.gguf"),
              HasSubstr("split.no 2 of split.count 3; by its name it should be split.no 1 of 3"));
  part("m-00002-of-00003.gguf", {1, 4, "b"});
  EXPECT_THAT(refusal("m-00001-of-00003.gguf"), HasSubstr("split.count 4"));
}

TEST_F(gguf_split, refuses_a_part_that_is_not_split) {
  three_parts();
  folder_.write("m-00002-of-00003.gguf", two_tensors().bytes());
  EXPECT_THAT(refusal("m-00001-of-00003.gguf"),
              HasSubstr("says that it is split.no 0 of split.count 1; by its name"));
}

TEST_F(gguf_split, refuses_absurd_counts) {
  part("a.gguf", {0, 0, "a"});
  EXPECT_THAT(refusal("a.gguf"), HasSubstr("split.count 0"));
  part("b.gguf", {3, 3, "a"});
  EXPECT_THAT(refusal("b.gguf"), HasSubstr("split.no 3 of split.count 3"));
  part("c-00001-of-65535.gguf", {0, 65535, "a"});
  EXPECT_THAT(refusal("c-00001-of-65535.gguf"), HasSubstr("supported are 1 to 512 parts"));
}

TEST_F(gguf_split, refuses_a_wrong_tensor_count) {
  three_parts();
  part("m-00001-of-00003.gguf", {0, 3, "a"}, 4);
  EXPECT_THAT(refusal("m-00002-of-00003.gguf"),
              HasSubstr("'split.tensors.count' is 4, but the 3 part(s) hold 3 tensors"));
}

TEST_F(gguf_split, refuses_a_tensor_in_two_parts) {
  three_parts();
  part("m-00003-of-00003.gguf", {2, 3, "a"});
  const auto message = refusal("m-00001-of-00003.gguf");
  EXPECT_THAT(message, HasSubstr("tensor 'a' is also in"));
  EXPECT_THAT(message, HasSubstr("m-00003-of-00003.gguf"));
}

TEST_F(gguf_split, says_which_part_is_damaged) {
  three_parts();
  folder_.write("m-00002-of-00003.gguf", "GGUF");
  EXPECT_THAT(refusal("m-00001-of-00003.gguf"), HasSubstr("m-00002-of-00003.gguf: the header"));
}

TEST_F(gguf_split, of_one_part_needs_no_name) {
  part("alone.gguf", {0, 1, "a"}, 1);
  EXPECT_EQ(opened(folder_.at("alone.gguf")).tensors().size(), 1U);
}

}  // namespace
}  // namespace terrane::engine::gguf
