// Compiled code on disk: found again, never trusted when damaged, kept within its size.
#include "kernels/cache/code_cache.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "kernels/lang/builder.hpp"
#include "kernels/llvm/compile.hpp"
#include "kernels/llvm/host_compiler.hpp"

namespace terrane::kernels {
namespace {

namespace fs = std::filesystem;

class folder {
 public:
  folder() {
    std::string name = (fs::temp_directory_path() / "terrane_cache_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& e : fs::directory_iterator(path_)) out.push_back(e.path());
    return out;
  }

 private:
  fs::path path_;
};

std::vector<std::byte> some_bytes(std::size_t n, int seed) {
  std::vector<std::byte> v(n);
  for (std::size_t k = 0; k < n; k++)
    v[k] = static_cast<std::byte>(k * 7 + static_cast<std::size_t>(seed));
  return v;
}

TEST(code_cache, finds_what_was_put_and_only_that) {
  folder f;
  code_cache cache((f.path() / "made/when/needed").string());
  code_key key{"device, driver 1", 3, 42};
  EXPECT_FALSE(cache.get(key).has_value());
  cache.put(key, some_bytes(1000, 1));
  EXPECT_EQ(cache.get(key), some_bytes(1000, 1));
  EXPECT_FALSE(cache.get({"device, driver 2", 3, 42}).has_value());
  EXPECT_FALSE(cache.get({"device, driver 1", 4, 42}).has_value());
  EXPECT_FALSE(cache.get({"device, driver 1", 3, 43}).has_value());
  cache.put(key, some_bytes(10, 2));
  EXPECT_EQ(cache.get(key), some_bytes(10, 2));
  EXPECT_EQ(code_cache(cache.folder()).get(key), some_bytes(10, 2)) << "after a restart";
}

TEST(code_cache, ignores_every_damaged_file) {
  folder f;
  code_cache cache(f.path().string());
  code_key key{"target", 1, 2};
  cache.put(key, some_bytes(50, 1));
  ASSERT_EQ(f.files().size(), 1u) << "no temporary file is left";
  fs::path file = f.files()[0];
  std::ifstream in(file, std::ios::binary);
  std::string whole{std::istreambuf_iterator<char>(in), {}};
  auto rewrite = [&](const std::string& text) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  };
  for (std::size_t k = 0; k < whole.size(); k++) {
    std::string damaged = whole;
    damaged[k] = static_cast<char>(damaged[k] ^ 0x10);
    rewrite(damaged);
    EXPECT_FALSE(cache.get(key).has_value()) << "byte " << k;
    rewrite(whole.substr(0, k));
    EXPECT_FALSE(cache.get(key).has_value()) << "cut at " << k;
  }
  rewrite(whole + "x");
  EXPECT_FALSE(cache.get(key).has_value());
  rewrite(whole);
  EXPECT_TRUE(cache.get(key).has_value());
}

TEST(code_cache, drops_what_was_used_longest_ago) {
  folder f;
  code_cache cache(f.path().string(), 5000);
  auto age = [&](std::chrono::hours h) {
    for (const fs::path& p : f.files()) fs::last_write_time(p, fs::last_write_time(p) - h);
  };
  for (std::uint64_t k = 0; k < 4; k++) {
    cache.put({"t", 1, k}, some_bytes(1000, 0));
    age(std::chrono::hours(1));
  }
  EXPECT_TRUE(cache.get({"t", 1, 0}).has_value());  // used just now
  cache.put({"t", 1, 4}, some_bytes(1000, 0));
  EXPECT_TRUE(cache.get({"t", 1, 0}).has_value());
  EXPECT_FALSE(cache.get({"t", 1, 1}).has_value());
  EXPECT_TRUE(cache.get({"t", 1, 4}).has_value());
  cache.put({"t", 1, 9}, some_bytes(6000, 0));
  EXPECT_FALSE(cache.get({"t", 1, 9}).has_value()) << "larger than the cache";
  EXPECT_TRUE(cache.get({"t", 1, 4}).has_value());
}

TEST(code_cache, without_a_usable_folder_is_empty) {
  code_cache off("");
  off.put({"t", 1, 1}, some_bytes(10, 0));
  EXPECT_FALSE(off.get({"t", 1, 1}).has_value());
  code_cache nowhere("/proc/nonesuch/cache");
  nowhere.put({"t", 1, 1}, some_bytes(10, 0));
  EXPECT_FALSE(nowhere.get({"t", 1, 1}).has_value());
}

program stores(std::int32_t number) {
  builder b("stores", 1);
  b.store(memory_type::i32, b.argument_ptr(0), b.i32(number));
  return b.finish();
}

std::int32_t stored_by(const code_cache& cache, const program& p) {
  auto compiler = host_compiler::make(&cache).value();
  std::int32_t out = 0;
  std::array<std::uint64_t, max_arguments> arguments{reinterpret_cast<std::uint64_t>(&out)};
  compiler->compile(p).value()(arguments.data(), 0, 1, 0, nullptr);
  return out;
}

TEST(code_cache, gives_the_compiler_its_code_back) {
  folder f;
  code_cache cache(f.path().string());
  EXPECT_EQ(stored_by(cache, stores(1)), 1);
  EXPECT_EQ(f.files().size(), 1u);
  EXPECT_EQ(stored_by(cache, stores(1)), 1);
  // The code of another program under the key of this one shows that it is what is run.
  EXPECT_EQ(stored_by(cache, stores(2)), 2);
  auto key = [](const program& p) {
    return code_key{host_identity(), llvm_lowering_version, fingerprint(p)};
  };
  cache.put(key(stores(2)), cache.get(key(stores(1))).value());
  EXPECT_EQ(stored_by(cache, stores(2)), 1);
}

}  // namespace
}  // namespace terrane::kernels
