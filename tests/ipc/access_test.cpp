#include "ipc/control/access.hpp"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/control/methods.hpp"
#include "tests/ipc/fixture.hpp"

namespace terrane::ipc {
namespace {

constexpr level_rules rules{900, 901, 800};

varlink::peer user(uid_t uid, gid_t gid, std::vector<gid_t> groups = {}) {
  return {uid, gid, 1, std::move(groups)};
}

TEST(access, a_level_follows_from_user_and_groups) {
  EXPECT_EQ(level_of(user(1000, 1000), rules), access_level::observe);
  EXPECT_EQ(level_of(user(1000, 1000, {27, 900}), rules), access_level::operate);
  EXPECT_EQ(level_of(user(1000, 900), rules), access_level::operate);
  EXPECT_EQ(level_of(user(1000, 1000, {901}), rules), access_level::admin);
  EXPECT_EQ(level_of(user(1000, 1000, {900, 901}), rules), access_level::admin);
  EXPECT_EQ(level_of(user(0, 0), rules), access_level::admin);
  EXPECT_EQ(level_of(user(800, 800), rules), access_level::admin);
  EXPECT_EQ(level_of(user(1000, 0, {0}), rules), access_level::observe)
      << "root's group is not root";
}

TEST(access, a_group_that_does_not_exist_gives_nothing) {
  const level_rules none{std::nullopt, std::nullopt, 800};
  EXPECT_EQ(level_of(user(1000, 1000, {900, 901, 0}), none), access_level::observe);
  EXPECT_FALSE(group_named("no-such-group-here"));
  EXPECT_EQ(group_named("root"), gid_t{0});
}

TEST(access, what_observers_may_see_never_shows_text) {
  std::vector<std::string_view> observed;
  for (const method_row& row : control_methods()) {
    if (row.level == access_level::observe) {
      observed.push_back(row.name);
    }
  }
  EXPECT_EQ(observed,
            (std::vector<std::string_view>{"Status", "Devices", "Placement", "Telemetry", "Tuning",
                                           "PolicyList", "Explain", "Why", "Monitor"}));
  EXPECT_EQ(find_control_method("Tune")->level, access_level::admin);
  EXPECT_EQ(find_control_method("PolicyReload")->level, access_level::admin);
}

TEST(access, sessions_of_others_need_admin) {
  EXPECT_TRUE((caller{1000, 1, access_level::operate}).may_use(1000));
  EXPECT_FALSE((caller{1000, 1, access_level::operate}).may_use(1001));
  EXPECT_TRUE((caller{1000, 1, access_level::admin}).may_use(1001));
}

// Calls with real credentials: a child process becomes another user and connects.
struct access_test : control_test {
  void SetUp() override {
    control_test::SetUp();
    if (geteuid() != 0) {
      GTEST_SKIP() << "only root can become another user";
    }
    // Groups that every system has stand in for terrane and terrane-admin.
    options.groups = {"games", "operator"};
    operate_group = group_named("games").value_or(0);
    admin_group = group_named("operator").value_or(0);
    if (operate_group == 0 || admin_group == 0) {
      GTEST_SKIP() << "this system has no groups games and operator";
    }
    std::filesystem::permissions(std::filesystem::path(path).parent_path(),
                                 std::filesystem::perms::all);
    start();
  }

  // What the child's `check` returns, as its exit status.
  template <class Check>
  bool as_user(uid_t uid, std::vector<gid_t> groups, Check check) const {
    const pid_t child = fork();
    if (child == 0) {
      const bool became = setgroups(groups.size(), groups.data()) == 0 &&
                          setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0;
      _exit(became && check() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
  }

  std::string error_for(const std::string& text) const {
    raw_client client(path);
    client.send_message(text);
    return error_of(client.receive());
  }

  gid_t operate_group = 0;
  gid_t admin_group = 0;
};

TEST_F(access_test, a_stranger_may_look_and_not_touch) {
  EXPECT_TRUE(as_user(12345, {}, [&] {
    return error_for(call_text("Status")).empty() &&
           error_for(call_text("Sessions")) == "io.terrane.Control.NotPermitted" &&
           error_for(call_text("Generate", R"({"prompt":"a"})")) ==
               "io.terrane.Control.NotPermitted" &&
           error_for(call_text("PolicyReload")) == "io.terrane.Control.NotPermitted";
  }));
}

TEST_F(access_test, a_member_of_the_operating_group_uses_own_sessions_only) {
  service.session_owner_uid = 12345;
  const auto close = call_text("CloseSession", R"({"session":3})");
  EXPECT_TRUE(as_user(12345, {operate_group}, [&] {
    return error_for(close).empty() &&
           error_for(call_text("PolicyReload")) == "io.terrane.Control.NotPermitted";
  }));
  EXPECT_TRUE(as_user(12346, {1, 2, operate_group},
                      [&] { return error_for(close) == "io.terrane.Control.NotPermitted"; }));
}

TEST_F(access_test, a_member_of_the_administrating_group_may_all) {
  service.session_owner_uid = 12345;
  EXPECT_TRUE(as_user(12346, {admin_group}, [&] {
    return error_for(call_text("CloseSession", R"({"session":3})")).empty() &&
           error_for(call_text("PolicyReload")) == "io.terrane.Control.PolicyInvalid";
  }));
}

TEST_F(access_test, many_groups_are_all_seen) {
  std::vector<gid_t> many(300);
  for (gid_t i = 0; i < many.size(); ++i) {
    many[i] = 50'000 + i;
  }
  many.push_back(operate_group);
  EXPECT_TRUE(as_user(12345, many, [&] { return error_for(call_text("Sessions")).empty(); }));
}

}  // namespace
}  // namespace terrane::ipc
