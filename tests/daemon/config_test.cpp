#include "daemon/config/config.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/device/device.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::daemon {
namespace {

using testing::HasSubstr;

std::string first_fault(const std::string& text) {
  auto c = parse_config("terraned.yaml", text);
  return c ? "" : policies::to_string(c.error().front());
}

TEST(config, a_folder_or_an_endless_file_is_refused) {
  auto folder = load_config("/");
  ASSERT_FALSE(folder.has_value());
  EXPECT_THAT(folder.error().front().message, HasSubstr("cannot be read"));
  auto endless = load_config("/dev/zero");
  ASSERT_FALSE(endless.has_value());
  EXPECT_THAT(endless.error().front().message, HasSubstr("larger than a mebibyte"));
}

TEST(config, reads_every_key) {
  auto c = parse_config("terraned.yaml", R"(
apiVersion: terrane/v1
model: {file: /models/m.gguf, context: 1024, sessions: 2, rows: 32, check_numbers: false}
devices:
  - {name: cpu, threads: 3, budget: 8GiB, reserve: 1GiB}
  - {name: vulkan, rank: 2}
start_on: vulkan
pinned: [embedding, "layer.0.*"]
policies: [/etc/terrane/policies]
limits: {link: {bytes: 4GiB, per: 10s}, in_flight: 8GiB}
telemetry: {period: 500ms, readings_file: /run/terrane/readings.yaml}
record: {directory: /var/lib/terrane/record, file_size: 1MiB, files: 3}
control: {socket: /tmp/s, operate_group: users, admin_group: wheel}
replies: {max_tokens: 99, temperature: 0.5, top_k: 10, top_p: 0.9, min_p: 0.1, repetition_penalty: 1.1,
          repetition_window: 32, hash_logits: true}
tune: off
cache: /var/cache/terrane
state: /var/lib/terrane
)");
  ASSERT_TRUE(c.has_value()) << policies::to_string(c.error().front());
  EXPECT_EQ(c->model_file, "/models/m.gguf");
  EXPECT_EQ(c->context_tokens, 1024U);
  ASSERT_EQ(c->devices.size(), 2U);
  EXPECT_EQ(c->devices[0].threads, 3U);
  EXPECT_EQ(c->devices[0].budget_bytes, 8ULL << 30);
  EXPECT_EQ(c->devices[0].reserve_bytes, 1ULL << 30);
  EXPECT_EQ(c->devices[1].rank, 2U);
  EXPECT_EQ(c->start_on, "vulkan");
  EXPECT_EQ(c->pinned.size(), 2U);
  EXPECT_EQ(c->period_ms, 500);
  EXPECT_EQ(c->record.folder, "/var/lib/terrane/record");
  EXPECT_EQ(c->record.file_bytes, 1U << 20);
  EXPECT_EQ(c->record.files, 3U);
  EXPECT_EQ(c->state_folder, "/var/lib/terrane");
  EXPECT_EQ(c->limits.link_bytes, 4ULL << 30);
  EXPECT_EQ(c->limits.link_per_ms, 10'000);
  EXPECT_EQ(c->limits.in_flight_bytes, 8ULL << 30);
  EXPECT_EQ(c->max_tokens, 99U);
  EXPECT_FLOAT_EQ(c->sampling.temperature, 0.5F);
  EXPECT_TRUE(c->hash_logits);
  EXPECT_FALSE(c->tune_at_first_use);
  EXPECT_FALSE(c->check_numbers);
}

TEST(config, a_limit_on_links_wants_bytes_and_time) {
  EXPECT_THAT(first_fault("model: {file: m}\nlimits: {link: {bytes: 4GiB}}"),
              HasSubstr("terraned.yaml:2:"));
  EXPECT_THAT(first_fault("model: {file: m}\nlimits: {link: {bytes: 4GiB}}"), HasSubstr("per"));
  EXPECT_THAT(first_fault("model: {file: m}\nlimits: {in_fligth: 4GiB}"), HasSubstr("in_flight"));
}

TEST(config, needs_only_a_model) {
  auto c = parse_config("terraned.yaml", "model: {file: m.gguf}\n");
  ASSERT_TRUE(c.has_value()) << policies::to_string(c.error().front());
  ASSERT_EQ(c->devices.size(), 1U);
  EXPECT_EQ(c->devices[0].name, "cpu");
  EXPECT_TRUE(c->record.folder.empty());
  EXPECT_EQ(c->rows, 0U);  // as the devices are
}

TEST(config, says_where_a_fault_stands_and_what_is_near) {
  EXPECT_THAT(
      first_fault("model: {file: m.gguf, contxt: 5}\n"),
      testing::AllOf(HasSubstr("terraned.yaml:1:"), HasSubstr("contxt"), HasSubstr("context")));
  EXPECT_THAT(first_fault("apiVersion: terrane/v1\n"), HasSubstr("model"));
  EXPECT_THAT(first_fault("model: {file: m}\ndevices:\n  - {name: cpu}\n  - {name: cpu}\n"),
              HasSubstr("twice"));
  EXPECT_THAT(first_fault("model: {file: m}\ndevices:\n  - {name: vulcan}\n"),
              testing::AllOf(HasSubstr("terraned.yaml:3:"), HasSubstr("did you mean 'vulkan'")));
  EXPECT_THAT(first_fault("model: {file: m, rows: 9}\n"), HasSubstr("multiple of 8"));
  EXPECT_THAT(first_fault("model: {file: m}\nreplies: {temperature: hot}\n"),
              HasSubstr("expected a number"));
  EXPECT_THAT(first_fault("model: {file: m}\nreplies: {top_p: 7}\n"), HasSubstr("top"));
  EXPECT_THAT(first_fault("model: {file: m}\ntelemetry: {period: 1ms}\n"), HasSubstr("10ms"));
  EXPECT_THAT(first_fault("model: {file: m}\ntune: often\n"), HasSubstr("first_use or off"));
  EXPECT_THAT(first_fault("model: {file: m}\nrecord: {files: 3}\n"), HasSubstr("directory"));
  EXPECT_THAT(first_fault("model: {file: m}\nrecord: {directory: d, file_size: 1KiB}\n"),
              HasSubstr("64KiB"));
  EXPECT_THAT(first_fault("model: [\n"), HasSubstr("terraned.yaml:"));
  EXPECT_THAT(
      first_fault("model: {file: m}\ndevices: [{name: cpu, budget: 1GiB, reserve: 2GiB}]\n"),
      testing::AllOf(HasSubstr("terraned.yaml:2:46"),
                     HasSubstr("'reserve' is 2 GiB of a 'budget' of 1 GiB")));
}

// Each at the place of its value, with what is possible.
TEST(config, a_word_that_is_none_of_those_possible_is_told_with_them) {
  const std::string begin = "model: {file: m}\ndevices: [{name: cpu}, {name: 'vulkan:a'}]\n";
  EXPECT_THAT(first_fault(begin + "start_on: automtic\n"),
              testing::AllOf(HasSubstr("terraned.yaml:3:11"),
                             HasSubstr("possible: cpu, vulkan:a, automatic"),
                             HasSubstr("did you mean 'automatic'?")));
  EXPECT_THAT(first_fault(begin + "start_on: cuda\n"), HasSubstr("cpu, vulkan:a, automatic"));
  for (const char* good : {"cpu", "vulkan", "vulkan:a", "automatic"})
    EXPECT_TRUE(parse_config("t", begin + "start_on: " + good + "\n").has_value()) << good;
  EXPECT_THAT(first_fault(begin + "tune: never\n"), HasSubstr("terraned.yaml:3:7"));
  EXPECT_THAT(first_fault(begin + "apiVersion: v1\n"), HasSubstr("terraned.yaml:3:13"));
  EXPECT_THAT(first_fault("model: {file: m, check_numbers: ja}\n"),
              HasSubstr("terraned.yaml:1:33"));
}

TEST(config, a_word_means_a_device_by_its_name_or_its_kind) {
  EXPECT_TRUE(names_device("cpu", "cpu"));
  EXPECT_TRUE(names_device("vulkan:a", "vulkan:a"));
  EXPECT_TRUE(names_device("vulkan", "vulkan:a"));
  for (const char* other : {"vulkan:b", "vulk", "cuda", "vulkan:a:0", "a", ""})
    EXPECT_FALSE(names_device(other, "vulkan:a")) << other;
  EXPECT_FALSE(names_device("vulkan:a", "vulkan"));
}

// A kind that was added stands in every list of them.
engine::device_kind after(engine::device_kind kind) {
  switch (kind) {  // no default: a compiler tells of a kind that is missing
    case engine::device_kind::cpu:
      return engine::device_kind::vulkan;
    case engine::device_kind::vulkan:
      return engine::device_kind::cuda;
    case engine::device_kind::cuda:
      break;
  }
  return engine::device_kind::cpu;
}

TEST(config, kinds_of_devices_are_the_same_everywhere) {
  std::vector<std::string_view> driven;
  auto kind = engine::device_kind::cpu;
  do {
    const std::string name = engine::to_string(kind);
    EXPECT_TRUE(parse_config("t", "model: {file: m}\ndevices: [{name: " + name + "}]\n")) << name;
    if (kind != engine::device_kind::cpu) driven.push_back(engine::to_string(kind));
    kind = after(kind);
  } while (kind != engine::device_kind::cpu);
  EXPECT_THAT(policies::drivers(), testing::UnorderedElementsAreArray(driven));
}

TEST(config, what_is_empty_is_not_what_is_left_out) {
  for (const char* key : {"start_on", "cache", "state", "tune"})
    EXPECT_THAT(first_fault("model: {file: m}\n" + std::string(key) + ": ''\n"),
                HasSubstr("terraned.yaml:2:"))
        << key;
  EXPECT_THAT(first_fault("model: {file: ''}\n"), HasSubstr("'file' is empty"));
  for (const char* key : {"policies", "pinned"})
    for (const char* empty : {"''", "['']"})
      EXPECT_THAT(first_fault("model: {file: m}\n" + std::string(key) + ": " + empty + "\n"),
                  testing::AllOf(HasSubstr("terraned.yaml:2:"), HasSubstr(key)))
          << key << empty;
  EXPECT_THAT(first_fault("model: {file: m}\ncontrol: {socket: ''}\n"), HasSubstr("'socket'"));
  EXPECT_THAT(first_fault("model: {file: m}\ncontrol: {socket: " + std::string(108, 's') + "}\n"),
              HasSubstr("'socket' is a path of 108 bytes, and that of a Unix socket has at most "
                        "107; name a shorter one"));
  EXPECT_THAT(first_fault("model: {file: m}\nrecord: {directory: ''}\n"), HasSubstr("directory"));
  EXPECT_THAT(first_fault("model: {file: m}\ntelemetry: {readings_file: ''}\n"),
              HasSubstr("readings_file"));
}

TEST(config, no_number_is_taken_for_another) {
  for (const char* key : {"temperature", "top_p", "min_p", "repetition_penalty"})
    for (const char* wrong : {"nan", "inf", "-inf", "1e99", "0x1", "", " ", "1,5"})
      EXPECT_THAT(
          first_fault("model: {file: m}\nreplies:\n  " + std::string(key) + ": '" + wrong + "'\n"),
          testing::AllOf(HasSubstr("terraned.yaml:3:"), HasSubstr("expected a number")))
          << key << " " << wrong;
  auto one = parse_config("t", "model: {file: m}\nreplies: {repetition_penalty: nan}\n");
  ASSERT_FALSE(one.has_value());
  EXPECT_EQ(one.error().size(), 1U);  // and nothing is said of a number that nobody wrote
  for (const char* wrong : {"18446744073709551616", "-1", "1e2", "0x10", "1.5", ""})
    EXPECT_THAT(
        first_fault("model: {file: m}\nreplies: {max_tokens: '" + std::string(wrong) + "'}\n"),
        HasSubstr("whole number"))
        << wrong;
}

TEST(config, a_missing_file_is_named) {
  auto c = load_config("/nowhere/terraned.yaml");
  ASSERT_FALSE(c.has_value());
  EXPECT_THAT(policies::to_string(c.error().front()), HasSubstr("/nowhere/terraned.yaml"));
}

}  // namespace
}  // namespace terrane::daemon
