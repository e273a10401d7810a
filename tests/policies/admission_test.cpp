// Quotas: what counts where, who is refused, what a policy file may say of them.
#include "policies/pipeline/admission.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/pipeline/evaluate.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::gib;
using tests::machine;

machine two_cards() {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("cuda:a", 8 * gib);
  m.add_device("vulkan:b", 8 * gib);
  m.add_session("1", 1000, 1 * gib, "cpu").tenant = "ann";
  m.add_session("2", 1000, 2 * gib, "cuda:a").tenant = "ann";
  m.add_session("3", 1000, 4 * gib, "vulkan:b").tenant = "ann";
  return m;
}

std::string policy(const std::string& quota, const std::string& more = "") {
  return "apiVersion: terrane/v1\npolicies:\n  - name: share\n    for_each: tenant\n" + more +
         "    quota: " + quota +
         "\n    enter: {metric: tenant.sessions, above: 90}\n"
         "    leave: {metric: tenant.sessions, below: 80}\n    do: {spill: kv, to: cpu}\n";
}

std::vector<std::string> faults_of(const std::string& text, const std::string& name = "p.yaml") {
  const auto set = policy_set::from_sources({{name, text}});
  std::vector<std::string> out;
  for (const diagnostic& d : set ? (*set)->warnings() : set.error()) out.push_back(to_string(d));
  return out;
}

TEST(admission, counts_where_the_quota_says) {
  machine m = two_cards();
  const snapshot& now = m.at(0);
  const tenant_state& ann = *find_tenant(now, "ann");
  const auto held = [&](const std::string& on) {
    return static_cast<double>(held_of_quota({1, on}, now, ann)) / gib;
  };
  EXPECT_EQ(held("all"), 7);
  EXPECT_EQ(held("gpu"), 6);
  EXPECT_EQ(held("cpu"), 1);
  EXPECT_EQ(held("cuda:*"), 2);
  EXPECT_EQ(held("vulkan:b"), 4);
}

TEST(admission, refuses_who_is_over_and_nobody_else) {
  machine m = two_cards();
  m.add_session("4", 1000, 1 * gib, "cuda:a").tenant = "bob";
  const auto refused = [&](const std::string& text, const std::string& who) {
    const policy_set_ptr set = *policy_set::from_sources({{"p.yaml", text}});
    pipeline_state state;
    const snapshot& now = m.at(1000);
    evaluate(*set, now, state);
    const auto answer = refuse_admission(*set, now, state, who);
    return answer ? answer->message : std::string();
  };
  EXPECT_THAT(refused(policy("{bytes: 3GiB, on: \"vulkan:*\"}"), "ann"),
              HasSubstr("ann holds 4 GiB of KV cache on vulkan:*, and policy 'share' (p.yaml:3:5) "
                        "allows 3 GiB"));
  EXPECT_EQ(refused(policy("{bytes: 3GiB, on: \"vulkan:*\"}"), "bob"), "");
  EXPECT_EQ(refused(policy("{bytes: 3GiB, on: \"cuda:*\"}"), "ann"), "");
  EXPECT_EQ(refused(policy("{bytes: 7GiB}"), "ann"), "");  // just what is allowed
  EXPECT_NE(refused(policy("{bytes: 6.9GiB}"), "ann"), "");
  EXPECT_EQ(refused(policy("{bytes: 1GiB}", "    mode: shadow\n"), "ann"), "");
  EXPECT_EQ(refused(policy("{bytes: 1GiB}", "    only: bob\n"), "ann"), "");
  EXPECT_EQ(refused(policy("{bytes: 1GiB}"), "carla"), "");  // has no session
  const policy_set_ptr set = *policy_set::from_sources({{"p.yaml", policy("{bytes: 1GiB}")}});
  snapshot now = m.at(2000);
  EXPECT_TRUE(refuse_admission(*set, now, {}, "ann"));
  now.disabled = {"share"};
  EXPECT_FALSE(refuse_admission(*set, now, {}, "ann"));
}

TEST(admission, what_a_file_may_say) {
  EXPECT_THAT(faults_of(policy("{bytes: 4GiB, on: gpu}")), IsEmpty());
  EXPECT_THAT(faults_of(policy("{bytes: 0}")), Contains(HasSubstr("'quota' needs bytes above")));
  EXPECT_THAT(
      faults_of(policy("{bytes: 4GiB, on: gpus}")),
      Contains(HasSubstr("'quota' cannot be on 'gpus'; it takes all, gpu, cpu, a device's")));
  EXPECT_THAT(faults_of(policy("{byte: 4GiB}")), Contains(HasSubstr("did you mean 'bytes'?")));
  std::string for_cards = policy("{bytes: 4GiB}");
  for_cards.replace(for_cards.find("for_each: tenant"), 16, "for_each: gpu");
  EXPECT_THAT(faults_of(for_cards), Contains(HasSubstr("use for_each: tenant")));
  std::string late = policy("{bytes: 1GiB, on: gpu}");
  late.replace(late.find("tenant.sessions, above: 90"), 26, "tenant.gpu_kv_bytes, above: 2GiB");
  EXPECT_THAT(faults_of(late), Contains(HasSubstr("'enter' lies above the quota")));
}

TEST(admission, lua_has_it_too) {
  const auto lua = [](const std::string& quota) {
    return "policy 'share' {\n for_each = 'tenant', quota = " + quota +
           ",\n enter = above('tenant.sessions', 9), leave = below('tenant.sessions', 5),\n"
           " plan = function (tenant, out) out:decline 'no' end }\n";
  };
  const auto set = policy_set::from_sources({{"p.lua", lua("{ bytes = GiB(4), on = 'cuda:*' }")}});
  ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
  EXPECT_EQ((*set)->rules()[0].quota.bytes, std::uint64_t{4} << 30);
  EXPECT_EQ((*set)->rules()[0].quota.on, "cuda:*");
  EXPECT_THAT(faults_of(lua("{ bytes = '2GiB' }"), "p.lua"), IsEmpty());
  EXPECT_THAT(faults_of(lua("4"), "p.lua"), Contains(HasSubstr("'quota' must be a table")));
  EXPECT_THAT(faults_of(lua("{ on = 'gpu' }"), "p.lua"), Contains(HasSubstr("bytes above zero")));
  EXPECT_THAT(faults_of(lua("{ bytes = 1, no = 2 }"), "p.lua"), Contains(HasSubstr("no key 'no'")));
}

}  // namespace
}  // namespace terrane::policies
