// Two CUDA devices over a driver of the test's own: copies from card to card, and where they do not
// go straight.
#include <algorithm>
#include <vector>

#include "engine/device/copies.hpp"
#include "tests/engine/cuda/fake_device.hpp"

namespace terrane::engine::cuda {
namespace {

using testing::HasSubstr;

// Two cards of one driver.
class cuda_pair : public cuda_device {
 protected:
  void open_both() {
    fake.cards.resize(2);
    fake.cards[1].uuid = 2;
    driver d = fake.table();
    std::vector<physical_device> found = survey(d);
    auto first = gpu::open(d, found[0], {}), second = gpu::open(d, found[1], {});
    ASSERT_TRUE(first && second);
    card = std::move(*first);
    other = std::move(*second);
    start = allocate(3000);
    end = std::move(*other->allocate(5u << 20, memory_use::kv));
    for (std::size_t k = 0; k < sent.size(); k++) sent[k] = static_cast<std::byte>(k * 5 + 1);
    ASSERT_TRUE(card->write(*start, 0, sent).has_value());
  }
  void TearDown() override {
    start.reset();
    end.reset();
    other.reset();
    cuda_device::TearDown();
  }
  std::vector<std::byte> arrived() {
    std::vector<std::byte> got(sent.size());
    EXPECT_TRUE(other->read(*end, 0, got).has_value());
    return got;
  }

  std::unique_ptr<device> other;
  std::unique_ptr<device_memory> start, end;
  std::vector<std::byte> sent = std::vector<std::byte>(3000);
};

TEST_F(cuda_pair, copies_go_straight_from_card_to_card) {
  open_both();
  EXPECT_EQ(other->no_direct_path(*card), "");
  const std::size_t before = fake.calls.size();
  // The first two follow each other at both ends.
  const std::vector<copy_range> ranges = {{start.get(), 0, end.get(), 0, 600},
                                          {start.get(), 600, end.get(), 600, 400},
                                          {start.get(), 1000, end.get(), 1004, 2000}};
  ASSERT_TRUE(copy_between(*card, *other, ranges).has_value());
  std::vector<std::byte> got(3004);
  ASSERT_TRUE(other->read(*end, 0, got).has_value());
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + 1000, sent.begin()));
  EXPECT_TRUE(std::equal(got.begin() + 1004, got.end(), sent.begin() + 1000));
  const std::vector<std::string> calls = fake.calls_since(before);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuMemcpyPeerAsync"), 2);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuMemcpyHtoDAsync"), 0);
  EXPECT_EQ(fake.seen.count({1, start->address()}), 1u);  // the target may read the source
}

TEST_F(cuda_pair, a_card_that_is_gone_does_not_take_the_target_along) {
  open_both();
  EXPECT_EQ(other->no_direct_path(*card), "");
  fake.fail_once["cuMemcpyPeerAsync"] = CUDA_ERROR_ILLEGAL_ADDRESS;
  fake.fail_once["cuMemGetInfo"] = CUDA_ERROR_ILLEGAL_ADDRESS;  // asked of the source first
  EXPECT_FALSE(copy_between(*card, *start, 0, *other, *end, 0, 3000).has_value());
  EXPECT_TRUE(card->lost().has_value());
  EXPECT_FALSE(other->lost().has_value());
  EXPECT_TRUE(other->write(*end, 0, sent).has_value());
}

TEST_F(cuda_pair, a_path_that_damages_is_not_used) {
  fake.peer_damages = true;
  open_both();
  EXPECT_THAT(other->no_direct_path(*card), HasSubstr("did not arrive whole"));
  ASSERT_TRUE(copy_between(*card, *start, 0, *other, *end, 0, 3000).has_value());
  EXPECT_EQ(arrived(), sent);
  EXPECT_EQ(fake.count("cuMemcpyPeerAsync"), 1u);  // the probe alone
}

TEST_F(cuda_pair, cards_that_do_not_reach_each_other_copy_through_the_host) {
  fake.fail_always["cuMemcpyPeerAsync"] = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  open_both();
  EXPECT_THAT(other->no_direct_path(*card), HasSubstr("cuMemcpyPeerAsync failed with"));
  ASSERT_TRUE(copy_between(*card, *start, 0, *other, *end, 0, 3000).has_value());
  EXPECT_EQ(arrived(), sent);
  fake.cards[0].peers = false;
  EXPECT_THAT(card->no_direct_path(*other), HasSubstr("no peer access"));
  EXPECT_EQ(fake.count("cuMemcpyPeerAsync"), 1u);
}

TEST_F(cuda_pair, a_direct_copy_stays_inside_its_memory) {
  open_both();
  const copy_range r{start.get(), 3000, end.get(), 0, 1000};
  EXPECT_EQ(other->copy_direct(*card, {&r, 1}).error().code, error_code::invalid_input);
}

}  // namespace
}  // namespace terrane::engine::cuda
