// A CUDA device beside a processor: what passes through the host is copied by whoever may.
#include <algorithm>
#include <vector>

#include "engine/device/copies.hpp"
#include "engine/device/cpu/cpu_device.hpp"
#include "tests/bench/forwarding_device.hpp"
#include "tests/engine/cuda/fake_device.hpp"

namespace terrane::engine::cuda {
namespace {

// A processor that counts what its workers are asked to copy.
class counting_processor : public bench::forwarding_device, public host_copier {
 public:
  counting_processor() : forwarding_device(*make_cpu_device({2, 0, ""})) {}
  void copy(std::span<const host_copy> copies) override {
    for (const host_copy& c : copies) copied += c.bytes;
    copier_of_caller().copy(copies);
  }
  void expect() override { expected++; }
  std::size_t copied = 0;
  int expected = 0;
};

class cuda_and_a_processor : public cuda_device {
 protected:
  // Pieces that lie apart at both ends and do not fit a half of the staging memory evenly.
  static constexpr std::size_t piece = (std::size_t{1} << 18) + 1000, pieces = 11;

  void SetUp() override {
    cuda_device::SetUp();
    open();
    theirs = allocate(pieces * (piece + 8));
    ours = std::move(*processor.allocate(pieces * (piece + 16), memory_use::kv));
    for (std::size_t k = 0; k < ours->bytes(); k++)
      ours->host()[k] = static_cast<std::byte>(k * 7 + k / 4096);
    sent.assign(ours->host(), ours->host() + ours->bytes());
    for (std::size_t k = 0; k < pieces; k++) {
      there.push_back({ours.get(), k * (piece + 16), theirs.get(), k * (piece + 8), piece});
      back.push_back({theirs.get(), k * (piece + 8), ours.get(), k * (piece + 16), piece});
    }
  }
  void TearDown() override {
    theirs.reset();
    ours.reset();
    cuda_device::TearDown();
  }
  void forget() {
    for (const copy_range& r : back) std::fill_n(ours->host() + r.to_offset, r.bytes, std::byte{0});
  }
  bool nothing_came() {
    return std::ranges::all_of(back, [&](const copy_range& r) {
      const std::byte* to = ours->host() + r.to_offset;
      return std::all_of(to, to + r.bytes, [](std::byte b) { return b == std::byte{0}; });
    });
  }
  bool came_back() { return std::equal(sent.begin(), sent.end(), ours->host()); }

  counting_processor processor;
  std::unique_ptr<device_memory> theirs, ours;
  std::vector<std::byte> sent;
  std::vector<copy_range> there, back;
};

TEST_F(cuda_and_a_processor, workers_copy_what_goes_between_idle_devices) {
  ASSERT_TRUE(copy_between_idle(processor, *card, there).has_value());
  EXPECT_EQ(processor.copied, pieces * piece);
  forget();
  ASSERT_TRUE(copy_between_idle(*card, processor, back).has_value());
  EXPECT_EQ(processor.copied, 2 * pieces * piece);
  EXPECT_EQ(processor.expected, 2);
  EXPECT_TRUE(came_back());
}

// They may be at work for a reply.
TEST_F(cuda_and_a_processor, workers_are_left_alone_otherwise) {
  ASSERT_TRUE(copy_between(processor, *card, there).has_value());
  forget();
  ASSERT_TRUE(copy_between(*card, processor, back).has_value());
  EXPECT_EQ(processor.copied, 0u);
  EXPECT_EQ(processor.expected, 0);
  EXPECT_TRUE(came_back());
}

TEST_F(cuda_and_a_processor, nothing_is_brought_after_a_copy_that_failed) {
  ASSERT_TRUE(copy_between(processor, *card, there).has_value());
  for (const char* call : {"cuMemcpyDtoHAsync", "cuEventRecord"}) {
    forget();
    fake.fail_once[call] = CUDA_ERROR_ILLEGAL_ADDRESS;
    EXPECT_FALSE(copy_between_idle(*card, processor, back).has_value()) << call;
    EXPECT_EQ(processor.copied, 0u) << call;
    EXPECT_TRUE(nothing_came()) << call;
  }
}

}  // namespace
}  // namespace terrane::engine::cuda
