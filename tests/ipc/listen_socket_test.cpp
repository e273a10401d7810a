#include "ipc/varlink/listen_socket.hpp"

#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/ipc/fixture.hpp"

namespace terrane::ipc::varlink {
namespace {

struct listen_socket_test : testing::Test {
  own_folder folder;
  std::string path = folder.path("s.sock");

  // A socket that listens at the path as a program without our lock would.
  int foreign_socket() const {
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(made, 5), 0);
    return made;
  }
};

TEST_F(listen_socket_test, anybody_may_connect_and_the_path_goes_at_the_end) {
  {
    const auto made = listen_socket::at_path(path);
    ASSERT_TRUE(made) << made.error().message;
    struct stat found {};
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_TRUE(S_ISSOCK(found.st_mode));
    EXPECT_EQ(found.st_mode & 0777, 0666U);
    EXPECT_TRUE(raw_client(path).connected());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".lock"));
}

TEST_F(listen_socket_test, a_second_daemon_is_refused_by_name) {
  const auto first = listen_socket::at_path(path);
  ASSERT_TRUE(first);
  const auto second = listen_socket::at_path(path);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, error_code::in_use);
  EXPECT_NE(second.error().message.find(path), std::string::npos);
  EXPECT_NE(second.error().message.find("process " + std::to_string(getpid())), std::string::npos);
  EXPECT_TRUE(raw_client(path).connected()) << "the first one still serves";
}

TEST_F(listen_socket_test, a_stale_socket_is_taken_over) {
  close(foreign_socket());
  ASSERT_TRUE(std::filesystem::exists(path));
  std::ofstream(path + ".lock") << "99999\n";  // left by the daemon that was killed
  const auto made = listen_socket::at_path(path);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(raw_client(path).connected());
}

TEST_F(listen_socket_test, a_socket_that_another_program_serves_is_left_alone) {
  const int foreign = foreign_socket();
  const auto made = listen_socket::at_path(path);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, error_code::in_use);
  EXPECT_TRUE(raw_client(path).connected());
  close(foreign);
}

TEST_F(listen_socket_test, a_file_that_is_no_socket_is_left_alone) {
  std::ofstream(path) << "precious";
  const auto made = listen_socket::at_path(path);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, error_code::io);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(listen_socket_test, only_its_own_file_is_removed_at_the_end) {
  {
    const auto made = listen_socket::at_path(path);
    ASSERT_TRUE(made);
    std::filesystem::remove(path);
    std::ofstream(path) << "somebody else's";
  }
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(listen_socket_test, impossible_paths_are_refused) {
  EXPECT_FALSE(listen_socket::at_path(""));
  EXPECT_FALSE(listen_socket::at_path(folder.path(std::string(200, 'x'))));
  EXPECT_FALSE(listen_socket::at_path(folder.path("no/such/folder.sock")));
}

// Whatever the interleaving, one of those who try at the same time gets a stale socket, and it
// works.
TEST_F(listen_socket_test, of_many_who_take_over_one_wins) {
  for (int round = 0; round < 50; ++round) {
    close(foreign_socket());
    std::vector<std::optional<listen_socket>> made(4);
    std::vector<std::thread> threads;
    for (auto& slot : made) {
      threads.emplace_back([&] {
        if (auto got = listen_socket::at_path(path)) {
          slot = std::move(*got);
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(std::count_if(made.begin(), made.end(), [](auto& one) { return one.has_value(); }),
              1);
    EXPECT_TRUE(raw_client(path).connected());
  }
}

TEST_F(listen_socket_test, a_socket_passed_in_is_used_and_its_path_is_left) {
  const int passed = foreign_socket();
  {
    const auto made = listen_socket::from_descriptor(passed);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(fcntl(passed, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(listen_socket_test, what_is_passed_in_must_be_a_listening_unix_socket) {
  EXPECT_FALSE(listen_socket::from_descriptor(-1));
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_FALSE(listen_socket::from_descriptor(pipes[0]));
  const int unconnected = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_FALSE(listen_socket::from_descriptor(unconnected));
  const int internet = socket(AF_INET, SOCK_STREAM, 0);
  listen(internet, 1);
  EXPECT_FALSE(listen_socket::from_descriptor(internet));
  for (const int one : {pipes[0], pipes[1], unconnected, internet}) {
    close(one);
  }
}

using served_by_systemd = control_test;

TEST_F(served_by_systemd, a_server_answers_on_a_socket_passed_in) {
  const int passed = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(passed, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(passed, 5), 0);
  server = std::make_unique<control_server>(service, events, options);
  auto socket = listen_socket::from_descriptor(passed);
  ASSERT_TRUE(socket);
  ASSERT_TRUE(server->start(std::move(*socket)));
  raw_client client(path);
  client.send_message(call_text("Status"));
  EXPECT_EQ(error_of(client.receive()), "");
  server->stop();
  EXPECT_TRUE(std::filesystem::exists(path)) << "it is systemd's";
}

}  // namespace
}  // namespace terrane::ipc::varlink
