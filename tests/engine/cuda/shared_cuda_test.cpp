// A CUDA device beside a device of another driver on the same card: CUDA maps what the other
// exports and copies both ways within the card.
#include <algorithm>
#include <vector>

#include <sys/mman.h>

#include "engine/device/copies.hpp"
#include "engine/device/cpu/cpu_device.hpp"
#include "engine/device/shared_memory.hpp"
#include "tests/bench/forwarding_device.hpp"
#include "tests/engine/cuda/fake_device.hpp"

namespace terrane::engine::cuda {
namespace {

using testing::HasSubstr;

// A file in memory, given out as a device's; mapped here and by whoever gets its descriptor.
class file_memory : public device_memory {
 public:
  static std::unique_ptr<file_memory> make(std::size_t bytes) {
    const int descriptor = ::memfd_create("exported", 0);
    EXPECT_EQ(::ftruncate(descriptor, static_cast<off_t>(bytes)), 0);
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return std::unique_ptr<file_memory>(
        new file_memory(descriptor, reinterpret_cast<std::uint64_t>(at), bytes));
  }
  ~file_memory() override {
    elsewhere.reset();
    ::munmap(reinterpret_cast<void*>(address()), bytes());
    ::close(descriptor);
  }
  const int descriptor;
  std::unique_ptr<foreign_mapping> elsewhere;

 private:
  file_memory(int d, std::uint64_t address, std::size_t bytes)
      : device_memory(address, bytes, nullptr), descriptor(d) {}
};

class exporting_device : public bench::forwarding_device, public exports_memory {
 public:
  exporting_device(const std::string& card, std::string why_not)
      : forwarding_device(*make_cpu_device({1, 0, ""})), why_not_(std::move(why_not)) {
    info_.name = "vulkan:of-" + card;
    info_.kind = device_kind::vulkan;
    info_.card = card;
    info_.host_memory = false;
  }
  const std::string& no_export() const override { return why_not_; }
  result<std::uint64_t> address_elsewhere(const device_memory& of,
                                          const map_exported& map) override {
    file_memory& file = *files_.at(of.address());
    if (file.elsewhere == nullptr || !file.elsewhere->is_open()) {
      auto mapped = map(::dup(file.descriptor), of.bytes());
      if (!mapped) return tl::unexpected<error>(mapped.error());
      file.elsewhere = std::move(*mapped);
    }
    return file.elsewhere->address();
  }
  result<void> write(device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override {
    std::copy(from.begin(), from.end(), bytes_of(to) + offset);
    return {};
  }
  result<void> read(const device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override {
    std::copy_n(bytes_of(from) + offset, to.size(), to.begin());
    return {};
  }

 private:
  static std::byte* bytes_of(const device_memory& m) {
    return reinterpret_cast<std::byte*>(m.address());
  }
  result<std::unique_ptr<device_memory>> allocate_memory(std::size_t bytes, memory_use) override {
    std::unique_ptr<file_memory> made = file_memory::make(bytes);
    files_[made->address()] = made.get();
    return made;
  }
  std::map<std::uint64_t, file_memory*> files_;
  const std::string why_not_;
};

class cuda_and_another : public cuda_device {
 protected:
  void open_both(const std::string& why_not = "") {
    open();
    other = std::make_unique<exporting_device>(card->info().card, why_not);
    ours = allocate(3000);
    theirs = std::move(*other->allocate(3000, memory_use::kv));
    for (std::size_t k = 0; k < sent.size(); k++) sent[k] = static_cast<std::byte>(k * 5 + 1);
  }
  void TearDown() override {
    ours.reset();
    theirs.reset();
    other.reset();
    cuda_device::TearDown();
  }
  void expect_copied_both_ways() {
    std::vector<std::byte> got(sent.size());
    ASSERT_TRUE(other->write(*theirs, 0, sent).has_value());
    ASSERT_TRUE(copy_between(*other, *theirs, 0, *card, *ours, 0, 3000).has_value());
    ASSERT_TRUE(card->read(*ours, 0, got).has_value());
    EXPECT_EQ(got, sent);
    std::reverse(sent.begin(), sent.end());
    ASSERT_TRUE(card->write(*ours, 0, sent).has_value());
    const copy_range halves[] = {{ours.get(), 0, theirs.get(), 0, 1000},
                                 {ours.get(), 1000, theirs.get(), 1000, 2000}};
    ASSERT_TRUE(copy_between(*card, *other, halves).has_value());
    ASSERT_TRUE(other->read(*theirs, 0, got).has_value());
    EXPECT_EQ(got, sent);
  }

  std::unique_ptr<exporting_device> other;
  std::unique_ptr<device_memory> ours, theirs;
  std::vector<std::byte> sent = std::vector<std::byte>(3000);
};

TEST_F(cuda_and_another, copy_within_the_card_both_ways) {
  open_both();
  EXPECT_EQ(card->no_direct_path(*other), "");
  EXPECT_EQ(other->no_direct_path(*card), "");
  const std::size_t before = fake.calls.size();
  expect_copied_both_ways();
  expect_copied_both_ways();
  const std::vector<std::string> calls = fake.calls_since(before);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuImportExternalMemory"), 1);  // once for all
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuMemcpyPeerAsync"), 4);
}

TEST_F(cuda_and_another, a_mapping_goes_with_the_memory_and_may_outlive_the_card) {
  open_both();
  ASSERT_EQ(card->no_direct_path(*other), "");
  const std::size_t before = fake.things;
  expect_copied_both_ways();
  EXPECT_EQ(fake.things, before + 2);
  theirs.reset();
  EXPECT_EQ(fake.things, before);
  theirs = std::move(*other->allocate(3000, memory_use::kv));
  expect_copied_both_ways();
  ours.reset();
  card.reset();
  EXPECT_EQ(fake.things, 0U);
}

TEST_F(cuda_and_another, a_card_that_is_opened_again_maps_again) {
  open_both();
  expect_copied_both_ways();
  ours.reset();
  card.reset();
  open();
  ours = allocate(3000);
  const std::size_t before = fake.count("cuImportExternalMemory");
  expect_copied_both_ways();
  EXPECT_GT(fake.count("cuImportExternalMemory"), before);
}

// A step copies between the two; the first that cannot be mapped must not end it.
TEST_F(cuda_and_another, memory_that_cannot_be_mapped_later_passes_through_the_host) {
  open_both();
  ASSERT_EQ(card->no_direct_path(*other), "");
  fake.fail_always["cuImportExternalMemory"] = CUDA_ERROR_OUT_OF_MEMORY;
  expect_copied_both_ways();
  EXPECT_FALSE(card->lost().has_value());
}

TEST(known_paths, are_not_probed_again_at_once_where_there_was_no_room) {
  for (const auto& [patience, probes] : {std::pair{std::chrono::milliseconds{0}, 3},
                                         std::pair{std::chrono::milliseconds{3600000}, 1}}) {
    known_paths paths(patience);
    int asked = 0;
    const auto probe = [&]() -> result<void> {
      asked++;
      return fail(error_code::no_room, "full");
    };
    for (int k = 0; k < 3; k++) EXPECT_THAT(paths.ask("card", probe), HasSubstr("no room"));
    EXPECT_EQ(asked, probes);
  }
}

TEST_F(cuda_and_another, a_path_that_damages_is_not_used) {
  fake.peer_damages = true;
  open_both();
  EXPECT_THAT(card->no_direct_path(*other), HasSubstr("did not arrive whole"));
  EXPECT_THAT(other->no_direct_path(*card), HasSubstr("did not arrive whole"));
  expect_copied_both_ways();
  EXPECT_EQ(fake.count("cuMemcpyPeerAsync"), 1U);  // the probe alone
}

TEST_F(cuda_and_another, what_the_driver_does_not_import_passes_through_the_host) {
  fake.fail_always["cuImportExternalMemory"] = CUDA_ERROR_UNKNOWN;
  open_both();
  EXPECT_THAT(card->no_direct_path(*other), HasSubstr("cuImportExternalMemory failed with"));
  EXPECT_FALSE(card->lost().has_value());
  expect_copied_both_ways();
}

TEST_F(cuda_and_another, what_the_driver_does_not_map_is_given_back) {
  fake.fail_always["cuExternalMemoryGetMappedBuffer"] = CUDA_ERROR_INVALID_VALUE;
  open_both();
  EXPECT_THAT(card->no_direct_path(*other), HasSubstr("cuExternalMemoryGetMappedBuffer failed"));
}  // the end of each test looks for what is left

TEST_F(cuda_and_another, reasons_are_named) {
  open_both("its driver exports nothing today");
  EXPECT_THAT(card->no_direct_path(*other), HasSubstr("its driver exports nothing today"));
  exporting_device elsewhere("another", "");
  EXPECT_THAT(card->no_direct_path(elsewhere), HasSubstr("it is another card"));
  EXPECT_EQ(fake.count("cuImportExternalMemory"), 0U);
}

TEST_F(cuda_and_another, a_copy_stays_inside_its_memory) {
  open_both();
  const copy_range beyond{ours.get(), 2500, theirs.get(), 0, 1000};
  EXPECT_EQ(other->copy_direct(*card, {&beyond, 1}).error().code, error_code::invalid_input);
  const copy_range also{theirs.get(), 2500, ours.get(), 0, 1000};
  EXPECT_EQ(card->copy_direct(*other, {&also, 1}).error().code, error_code::invalid_input);
}

}  // namespace
}  // namespace terrane::engine::cuda
