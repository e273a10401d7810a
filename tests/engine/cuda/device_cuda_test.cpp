// The logic of a CUDA device over a driver of the test's own: what is asked of it and in which
// order, what happens when it fails, and that everything is given back. Tests on a real card are
// device_gpu_test.cpp and device_gpu_kernels_test.cpp.
#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/device/copies.hpp"
#include "engine/device/cuda/gpu.hpp"
#include "engine/device/discovery.hpp"
#include "kernels/lang/builder.hpp"
#include "tests/engine/cuda/fake_device.hpp"

namespace terrane::engine::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(cuda_device, is_named_by_uuid_and_described_for_people) {
  fake.cards[0].name = "Fake 9000";
  fake.cards[0].uuid = 0xab;
  open();
  const device_info& info = card->info();
  EXPECT_EQ(info.name, "cuda:ab000000-0000-0000-0000-000000000000");
  EXPECT_EQ(info.kind, device_kind::cuda);
  EXPECT_EQ(info.description, "Fake 9000 (NVIDIA driver 999.1, CUDA 13.0, compute capability 9.0)");
  EXPECT_THAT(info.driver, HasSubstr("999.1"));
  EXPECT_EQ(info.memory_bytes, std::size_t{1} << 30);
}

TEST_F(cuda_device, what_cannot_be_used_says_why) {
  fake_card old, prohibited;
  old.capability = 61;
  prohibited.compute_mode = CU_COMPUTEMODE_PROHIBITED;
  fake.cards = {old, prohibited, fake_card{}};
  std::vector<physical_device> found = survey(fake.table());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].refused, "its compute capability is 6.1; 7.5 or newer is needed");
  EXPECT_THAT(found[1].refused, HasSubstr("prohibited"));
  EXPECT_EQ(found[2].refused, "");
  fake.fail_once["cuDeviceGetUuid"] = CUDA_ERROR_ECC_UNCORRECTABLE;
  EXPECT_EQ(survey(fake.table())[0].refused,
            "cuDeviceGetUuid failed with CUDA_ERROR_ECC_UNCORRECTABLE");
}

TEST_F(cuda_device, an_old_driver_and_one_without_cards_are_refused) {
  fake.version = 11040;
  driver d = fake.table();
  result<void> started = start(d);
  ASSERT_FALSE(started.has_value());
  EXPECT_THAT(started.error().message, HasSubstr("CUDA 11.4, 12.0 (driver 525) or newer"));
  EXPECT_EQ(fake.count("cuInit"), 0u);

  fake.version = 12040;
  fake.cards.clear();
  started = start(d);
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().message, "the NVIDIA driver finds no GPU");
  fake.fail_always["cuInit"] = CUDA_ERROR_ECC_UNCORRECTABLE;
  started = start(d);
  ASSERT_FALSE(started.has_value());
  EXPECT_THAT(started.error().message, HasSubstr("cuInit failed with CUDA_ERROR_ECC"));
}

TEST_F(cuda_device, memory_is_mapped_by_hand_and_given_back_whole) {
  open();
  const std::size_t before = fake.things, start = fake.calls.size();
  auto memory = allocate(5u << 20);
  EXPECT_THAT(fake.calls_since(start),
              ElementsAre("cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"));
  EXPECT_EQ(memory->bytes(), 6u << 20);  // in units of 2 MiB
  EXPECT_EQ(memory->address() % (2u << 20), 0u);
  EXPECT_EQ(fake.seen.count({0, memory->address()}), 1u);
  EXPECT_EQ(card->used_bytes(memory_use::scratch), 6u << 20);
  EXPECT_EQ(fake.exportable_bytes, 6u << 20);
  EXPECT_EQ(card->driver_used_bytes(), 6u << 20);
  const std::size_t end = fake.calls.size();
  memory.reset();
  EXPECT_EQ(card->used_bytes(), 0u);
  card->trim();  // not before: a reply may be running
  EXPECT_THAT(fake.calls_since(end), ElementsAre("cuMemUnmap", "cuMemAddressFree", "cuMemRelease"));
  EXPECT_EQ(fake.things, before);
}

TEST_F(cuda_device, memory_that_was_given_back_is_given_out_again_as_it_was) {
  open();
  auto first = allocate(4u << 20), second = allocate(4u << 20);
  const std::uint64_t address = first->address();
  first->set_content(7);
  second->set_content(8);
  first.reset();
  second.reset();
  const std::size_t start = fake.calls.size();
  auto again = card->allocate(4u << 20, memory_use::weights, 7);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ((*again)->content(), 7u);
  EXPECT_EQ((*again)->address(), address);
  auto other = card->allocate(4u << 20, memory_use::weights, 9);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ((*other)->content(), 0u) << "it holds something else";
  EXPECT_TRUE(fake.calls_since(start).empty());
  auto larger = card->allocate(6u << 20, memory_use::weights, 7);
  ASSERT_TRUE(larger.has_value());
  EXPECT_EQ((*larger)->content(), 0u);
}

TEST_F(cuda_device, memory_that_is_kept_makes_room_when_it_is_needed) {
  open();
  allocate(600u << 20).reset();
  EXPECT_EQ(fake.held_bytes(0), 600u << 20);
  EXPECT_NE(allocate(700u << 20), nullptr);  // of 1 GiB
}

TEST_F(cuda_device, small_pieces_share_an_arena) {
  open();
  const std::size_t before = fake.count("cuMemCreate");
  std::vector<std::unique_ptr<device_memory>> pieces;
  for (int k = 0; k < 16; k++) pieces.push_back(allocate(1000));
  EXPECT_EQ(fake.count("cuMemCreate"), before + 1);
  for (std::size_t k = 0; k < pieces.size(); k++) {
    EXPECT_EQ(pieces[k]->address() % 256, 0u);
    for (std::size_t other = 0; other < k; other++)
      EXPECT_NE(pieces[k]->address(), pieces[other]->address());
  }
  EXPECT_EQ(card->used_bytes(), 16u * 1024);
  pieces.clear();
  card->trim();
  EXPECT_EQ(fake.held_bytes(0), 0u);
}

TEST_F(cuda_device, a_card_that_cannot_map_memory_allocates_plainly) {
  fake.cards[0].memory_mapping = false;
  open();
  auto memory = allocate(5u << 20);
  EXPECT_EQ(fake.count("cuMemAlloc"), 1u);
  EXPECT_EQ(fake.count("cuMemCreate"), 0u);
  EXPECT_EQ(memory->bytes(), 5u << 20);
}

// In a sandbox the calls exist and fail.
TEST_F(cuda_device, a_card_that_only_says_it_can_map_memory_allocates_plainly) {
  fake.fail_always["cuMemMap"] = CUDA_ERROR_NOT_PERMITTED;
  open();
  auto memory = allocate(5u << 20);
  EXPECT_EQ(fake.count("cuMemAlloc"), 1u);
}

TEST_F(cuda_device, a_card_that_only_says_it_can_export_maps_memory_for_itself) {
  fake.fail_once["cuMemCreate"] = CUDA_ERROR_NOT_PERMITTED;
  open();
  EXPECT_NE(allocate(5u << 20), nullptr);
  EXPECT_EQ(fake.count("cuMemAlloc"), 0u);
  EXPECT_EQ(fake.exportable_bytes, 0u);
}

// Whatever call of an allocation fails: no memory stays, and only a real fault loses the card.
TEST_F(cuda_device, a_failed_allocation_leaves_nothing) {
  for (const char* call : {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
    open();
    const std::size_t before = fake.things;
    fake.fail_always[call] = CUDA_ERROR_OUT_OF_MEMORY;
    auto none = card->allocate(5u << 20, memory_use::weights);
    fake.fail_always.clear();
    ASSERT_FALSE(none.has_value()) << call;
    EXPECT_EQ(none.error().code, error_code::no_room);
    EXPECT_THAT(none.error().message, HasSubstr(call));
    EXPECT_EQ(fake.things, before) << call;
    EXPECT_EQ(card->used_bytes(), 0u);
    EXPECT_NE(allocate(100), nullptr);
    fake.fail_once[call] = CUDA_ERROR_ILLEGAL_ADDRESS;
    EXPECT_FALSE(card->allocate(5u << 20, memory_use::weights).has_value());
    expect_lost(call, "CUDA_ERROR_ILLEGAL_ADDRESS");
    card.reset();
  }
}

TEST_F(cuda_device, what_is_larger_than_the_card_finds_no_room) {
  open();
  card->set_budget_bytes(std::uint64_t{1} << 40);
  auto none = card->allocate(std::size_t{2} << 30, memory_use::weights);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, error_code::no_room);
  EXPECT_THAT(none.error().message, HasSubstr(std::to_string(std::size_t{2} << 30)));
}

TEST_F(cuda_device, copies_go_through_pinned_halves_in_order) {
  open();
  auto memory = allocate(8u << 20);
  std::vector<std::byte> from((3u << 20) + 17), back(from.size() - 3);
  for (std::size_t k = 0; k < from.size(); k++) from[k] = static_cast<std::byte>(k * 7 + k / 4096);
  ASSERT_TRUE(card->write(*memory, 5, from).has_value());
  EXPECT_THAT(fake.copies, ElementsAre(1u << 20, 1u << 20, 1u << 20, 17u));
  fake.copies.clear();
  ASSERT_TRUE(card->read(*memory, 8, back).has_value());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), from.begin() + 3));
  EXPECT_THAT(fake.copies, ElementsAre(1u << 20, 1u << 20, 1u << 20, 14u));
  EXPECT_EQ(fake.pinned_bytes, 2 * copier::half_bytes);  // one lane: nobody copied beside it

  EXPECT_EQ(card->write(*memory, memory->bytes() - 4, std::span(from).first(5)).error().code,
            error_code::invalid_input);
  EXPECT_FALSE(card->read(*memory, memory->bytes() + 1, std::span(back).first(0)).has_value());
}

TEST_F(cuda_device, a_copy_that_fails_loses_the_card) {
  open();
  auto memory = allocate(4u << 20);
  std::vector<std::byte> bytes(3u << 20);
  fake.fail_once["cuMemcpyDtoHAsync"] = CUDA_ERROR_ILLEGAL_ADDRESS;
  result<void> failed = card->read(*memory, 0, bytes);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, error_code::device_fault);
  expect_lost("cuMemcpyDtoHAsync", "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(cuda_device, phases_are_one_graph_in_their_order) {
  open();
  auto small = card->compile(add_one("small")), wide = card->compile(add_one("wide", 4, 64));
  ASSERT_TRUE(small && wide) << to_string(small ? wide.error() : small.error());
  std::vector<dispatch> phases(3);
  phases[0].kernel = *small;
  phases[0].groups_x = 7;
  phases[0].arguments[0] = 1000;
  phases[0].arguments[15] = 15;
  phases[1].kernel = *wide;
  phases[1].groups_y = 3;
  phases[2].kernel = *small;
  phases[2].groups_x = 0;  // nothing to do
  const std::size_t start = fake.calls.size();
  auto list = card->record(phases);
  ASSERT_TRUE(list.has_value()) << to_string(list.error());
  EXPECT_THAT(fake.calls_since(start),
              ElementsAre("cuStreamBeginCapture", "cuLaunchKernelEx", "cuLaunchKernelEx",
                          "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphUpload",
                          "cuStreamSynchronize"));
  EXPECT_EQ((*list)->launches, 3u);
  EXPECT_TRUE(fake.run.empty());
  phases[0].arguments[0] = 0;  // arguments are taken when they are recorded
  ASSERT_TRUE(card->submit(**list).has_value());
  ASSERT_TRUE(card->submit(**list).has_value());
  ASSERT_TRUE(card->wait().has_value());
  EXPECT_EQ(card->launches(), 6u);
  ASSERT_EQ(fake.run.size(), 4u);
  for (std::size_t turn : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(fake.run[turn].kernel, "small");
    EXPECT_EQ(fake.run[turn].groups_x, 7u);
    EXPECT_EQ(fake.run[turn].threads, 32u);
    EXPECT_EQ(fake.run[turn].arguments[0], 1000u);
    EXPECT_EQ(fake.run[turn].arguments[15], 15u);
    EXPECT_EQ(fake.run[turn + 1].kernel, "wide");
    EXPECT_EQ(fake.run[turn + 1].groups_y, 3u);
    EXPECT_EQ(fake.run[turn + 1].threads, 128u);
    EXPECT_GE(fake.run[turn + 1].shared_bytes, 256u);
  }
}

// So that the card is at work while the driver is handed the rest.
TEST_F(cuda_device, many_phases_are_graphs_of_growing_length) {
  open();
  auto kernel = card->compile(add_one("one"));
  ASSERT_TRUE(kernel.has_value());
  std::vector<dispatch> phases(200);
  for (std::uint32_t k = 0; k < phases.size(); k++) {
    phases[k].kernel = *kernel;
    phases[k].groups_x = k + 1;
  }
  auto list = card->record(phases);
  ASSERT_TRUE(list.has_value()) << to_string(list.error());
  const std::size_t start = fake.calls.size();
  ASSERT_TRUE(card->submit(**list).has_value());
  EXPECT_THAT(fake.calls_since(start),
              ElementsAre("cuGraphLaunch", "cuGraphLaunch", "cuGraphLaunch", "cuEventRecord"));
  ASSERT_EQ(fake.run.size(), phases.size());
  for (std::uint32_t k = 0; k < phases.size(); k++) EXPECT_EQ(fake.run[k].groups_x, k + 1);
}

TEST_F(cuda_device, a_list_that_was_recorded_before_is_not_recorded_again) {
  open();
  auto kernel = card->compile(add_one());
  ASSERT_TRUE(kernel.has_value());
  std::vector<dispatch> phases(2);
  for (dispatch& d : phases) d.kernel = *kernel;
  auto first = card->record(phases), again = card->record(phases);
  ASSERT_TRUE(first && again);
  first->reset();
  EXPECT_EQ(fake.count("cuGraphInstantiateWithFlags"), 1u);
  ASSERT_TRUE(card->submit(**again).has_value());
  ASSERT_TRUE(card->wait().has_value());
  EXPECT_EQ(fake.run.size(), 2u);
  phases[1].arguments[3] = 1;
  ASSERT_TRUE(card->record(phases).has_value());
  EXPECT_EQ(fake.count("cuGraphInstantiateWithFlags"), 2u);
}

TEST_F(cuda_device, a_failed_recording_ends_its_capture) {
  open();
  auto kernel = card->compile(add_one());
  ASSERT_TRUE(kernel.has_value());
  dispatch d;
  d.kernel = *kernel;
  for (const char* call :
       {"cuLaunchKernelEx", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphUpload"}) {
    d.arguments[0]++;  // a list that is not known yet
    const std::size_t before = fake.things;
    fake.fail_once[call] = CUDA_ERROR_OUT_OF_MEMORY;
    auto list = card->record(std::span(&d, 1));
    ASSERT_FALSE(list.has_value()) << call;
    EXPECT_EQ(list.error().code, error_code::no_room);
    EXPECT_EQ(fake.things, before) << call;
    EXPECT_TRUE(card->record(std::span(&d, 1)).has_value()) << call;
  }
  d.groups_y = 70000;
  auto wide = card->record(std::span(&d, 1));
  ASSERT_FALSE(wide.has_value());
  EXPECT_EQ(wide.error().code, error_code::unsupported);
  EXPECT_THAT(wide.error().message, HasSubstr("1 by 70000"));
}

TEST_F(cuda_device, a_lost_card_stays_lost_and_is_not_called_again) {
  open();
  auto kernel = card->compile(add_one());
  auto memory = allocate(100);
  ASSERT_TRUE(kernel.has_value());
  dispatch d;
  d.kernel = *kernel;
  auto list = card->record(std::span(&d, 1));
  ASSERT_TRUE(list.has_value());
  ASSERT_TRUE(card->submit(**list).has_value());
  // An error of a kernel comes to light where its end is waited for.
  fake.fail_once["cuEventQuery"] = CUDA_ERROR_ILLEGAL_ADDRESS;
  result<void> ended = card->wait();
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, error_code::device_fault);

  const std::size_t start = fake.calls.size();
  std::byte one{};
  const std::vector<result<void>> later = {card->submit(**list), card->wait(),
                                           card->write(*memory, 0, std::span(&one, 1)),
                                           card->read(*memory, 0, std::span(&one, 1))};
  for (const result<void>& r : later) {
    ASSERT_FALSE(r.has_value());
    EXPECT_EQ(r.error().code, error_code::device_fault);
    EXPECT_EQ(r.error().message, ended.error().message);
  }
  EXPECT_FALSE(card->compile(add_one()).has_value());
  EXPECT_FALSE(card->compile(add_one("another")).has_value());
  EXPECT_FALSE(card->record(std::span(&d, 1)).has_value());
  EXPECT_EQ(card->driver_used_bytes(), 0u);
  expect_lost("cuEventQuery", "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_THAT(fake.calls_since(start), ElementsAre());
}

TEST_F(cuda_device, one_lost_card_leaves_the_other_whole) {
  fake.cards.resize(2);
  fake.cards[1].uuid = 2;
  driver d = fake.table();
  std::vector<physical_device> found = survey(d);
  auto first = gpu::open(d, found[0], {}), second = gpu::open(d, found[1], {});
  ASSERT_TRUE(first && second);
  fake.fail_once["cuMemCreate"] = CUDA_ERROR_ECC_UNCORRECTABLE;
  EXPECT_FALSE((*first)->allocate(100, memory_use::kv).has_value());
  EXPECT_FALSE((*first)->allocate(100, memory_use::kv).has_value());
  auto there = (*second)->allocate(100, memory_use::kv);
  ASSERT_TRUE(there.has_value());
  EXPECT_EQ(fake.seen.count({1, (*there)->address()}), 1u);
}

TEST_F(cuda_device, equal_programs_are_one_kernel) {
  open();
  auto a = card->compile(add_one()), b = card->compile(add_one());
  ASSERT_TRUE(a && b);
  EXPECT_EQ(*a, *b);
  EXPECT_EQ(fake.count("cuLinkComplete"), 1u);
  EXPECT_THAT(fake.linked, HasSubstr(".target sm_90"));
}

TEST_F(cuda_device, code_is_written_for_the_card_or_the_newest_that_is_known) {
  for (auto [capability, target] : {std::pair{75, "sm_75"}, std::pair{87, "sm_86"},
                                    std::pair{90, "sm_90"}, std::pair{120, "sm_90"}}) {
    fake.cards[0].capability = capability;
    open();
    ASSERT_TRUE(card->compile(add_one()).has_value());
    EXPECT_THAT(fake.linked, HasSubstr(std::string(".target ") + target));
  }
}

TEST_F(cuda_device, a_later_start_compiles_nothing) {
  keep_code();
  open();
  ASSERT_TRUE(card->compile(add_one()).has_value());
  EXPECT_EQ(fake.count("cuLinkCreate"), 1u);
  open();
  ASSERT_TRUE(card->compile(add_one()).has_value());
  EXPECT_EQ(fake.count("cuLinkCreate"), 1u);
  // Another driver compiles anew.
  fake.version = 13010;
  open();
  ASSERT_TRUE(card->compile(add_one()).has_value());
  EXPECT_EQ(fake.count("cuLinkCreate"), 2u);
}

TEST_F(cuda_device, kept_code_that_the_driver_refuses_is_made_anew) {
  keep_code();
  open();
  ASSERT_TRUE(card->compile(add_one()).has_value());
  open();
  fake.fail_once["cuModuleLoadData"] = CUDA_ERROR_INVALID_IMAGE;
  ASSERT_TRUE(card->compile(add_one()).has_value());
  EXPECT_EQ(fake.count("cuLinkCreate"), 2u);
}

TEST_F(cuda_device, a_kernel_that_is_refused_is_named_and_the_card_stays) {
  open();
  fake.fail_once["cuLinkAddData"] = CUDA_ERROR_INVALID_PTX;
  fake.compiler_says = "ptxas application ptx input, line 7; error";
  auto refused = card->compile(add_one("odd"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, error_code::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("kernel 'odd'"));
  EXPECT_THAT(refused.error().message, HasSubstr("CUDA_ERROR_INVALID_PTX"));
  EXPECT_THAT(refused.error().message, HasSubstr("line 7"));
  EXPECT_TRUE(card->compile(add_one("even")).has_value());

  fake.most_threads = 96;
  auto crowded = card->compile(add_one("crowded", 4));
  ASSERT_FALSE(crowded.has_value());
  EXPECT_EQ(crowded.error().code, error_code::unsupported);
  EXPECT_THAT(crowded.error().message, HasSubstr("128 threads"));
  auto greedy = card->compile(add_one("greedy", 1, 1u << 20));
  ASSERT_FALSE(greedy.has_value());
  EXPECT_THAT(greedy.error().message, HasSubstr("bytes of shared memory"));
}

TEST_F(cuda_device, much_shared_memory_is_asked_for) {
  open();
  ASSERT_TRUE(card->compile(add_one("much", 1, 20000)).has_value());
  EXPECT_EQ(fake.count("cuFuncSetAttribute 80000"), 1u);
}

TEST_F(cuda_device, a_card_that_does_not_open_gives_everything_back) {
  for (const char* call :
       {"cuDevicePrimaryCtxRetain", "cuStreamCreateWithPriority", "cuEventCreate"}) {
    driver d = fake.table();
    fake.fail_once[call] = CUDA_ERROR_ECC_UNCORRECTABLE;
    auto opened = gpu::open(d, survey(d)[0], {});
    ASSERT_FALSE(opened.has_value()) << call;
    EXPECT_EQ(opened.error().code, error_code::device_fault);
    EXPECT_EQ(fake.things, 0u) << call;
  }
}

// Two drivers, or two users in this process, of one card.
TEST_F(cuda_device, a_card_is_not_given_out_twice) {
  open();
  driver d = fake.table();
  auto again = gpu::open(d, survey(d)[0], {});
  ASSERT_TRUE(again.has_value());
  const std::size_t part = std::size_t{600} << 20;
  auto first = allocate(part);
  EXPECT_EQ((*again)->limit_bytes(), (std::size_t{1} << 30) - part);
  auto none = (*again)->allocate(part, memory_use::weights);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, error_code::no_room);
  EXPECT_EQ(none.error().available, (std::size_t{1} << 30) - part);
  first.reset();
  EXPECT_TRUE((*again)->allocate(part, memory_use::weights).has_value());
}

TEST_F(cuda_device, a_list_that_ran_before_is_warm) {
  open();
  auto kernel = card->compile(add_one());
  ASSERT_TRUE(kernel.has_value());
  dispatch d;
  d.kernel = *kernel;
  auto first = card->record(std::span(&d, 1)), second = card->record(std::span(&d, 1));
  ASSERT_TRUE(first && second);
  EXPECT_FALSE((*first)->is_warm || (*second)->is_warm);
  ASSERT_TRUE(card->submit(**first).has_value());
  ASSERT_TRUE(card->wait().has_value());
  auto third = card->record(std::span(&d, 1));
  EXPECT_TRUE((*third)->is_warm);
  d.groups_x = 2;
  auto other = card->record(std::span(&d, 1));
  EXPECT_FALSE((*other)->is_warm);
}

// A step right after a move may be held up; what follows must not be waited for as long.
TEST(cuda_run_time, of_a_run_that_was_held_up_is_not_slept_away) {
  using namespace std::chrono_literals;
  run_time t;
  EXPECT_EQ(t.quiet(), 0ms);
  t.ended(6ms);
  EXPECT_EQ(t.quiet(), 0ms);
  t.ended(2ms);
  EXPECT_EQ(t.quiet(), 1850us);
  t.ended(2ms);
  t.ended(6ms);
  EXPECT_EQ(t.quiet(), 1850us);
  t.ended(6ms);
  EXPECT_EQ(t.quiet(), 5850us);
  t.ended_unseen();
  EXPECT_EQ(t.quiet(), 0ms);
  t.ended(100us);
  t.ended(100us);
  EXPECT_EQ(t.quiet(), 0ms);
}

}  // namespace
}  // namespace terrane::engine::cuda
