// What the tests of ipc share: a control server on a socket in a folder of its own with a
// fake_service behind it, and a client that sends raw bytes. Reading gives up after ten seconds, so
// a reply that never comes fails a test instead of stopping it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>
#include <gtest/gtest.h>

#include "ipc/control/server.hpp"
#include "tests/ipc/fake_service.hpp"

namespace terrane::ipc {

// A folder that goes away with its contents.
class own_folder {
 public:
  own_folder();
  ~own_folder();
  std::string path(std::string_view name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

class raw_client {
 public:
  explicit raw_client(const std::string& path);
  ~raw_client();
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;

  bool connected() const { return connected_; }
  // As many bytes as the server takes; false when it closed.
  bool send(std::string_view bytes) const;
  // `text` and a NUL.
  bool send_message(std::string_view text) const;
  void finish_sending() const;
  void close();

  // The next reply as JSON; null when the connection ended instead.
  boost::json::value receive();
  // Whether the server closed, with nothing (more) said.
  bool ended();

 private:
  int descriptor_ = -1;
  bool connected_ = false;
  std::string buffer_;
};

struct control_test : testing::Test {
  own_folder folder;
  std::string path = folder.path("control.sock");
  fake_service service;
  event_hub events;
  control_server_options options;
  std::unique_ptr<control_server> server;

  void SetUp() override { options.version = "0.1.0"; }
  void start();
};

// "io.terrane.Control.Member" called with these parameters (JSON) and further keys of the call.
std::string call_text(std::string_view member, std::string_view parameters = "{}",
                      std::string_view more_keys = "");
// The name of the error of a reply; empty when it is none.
std::string error_of(const boost::json::value& reply);

}  // namespace terrane::ipc
