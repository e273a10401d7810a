// Plays a client of the control socket that sends arbitrary bytes, closes its sending side, and
// later hangs up; the service behind the protocol is the fake one of the ipc tests. Everything runs
// on one thread, until nothing is left to do, so an input always does the same. The client must get
// whole Varlink replies, in the order of its calls, that the interface allows; and when it is gone,
// the connection must end. The same input is also read as an interface description.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/control/interface_text.hpp"
#include "ipc/control/methods.hpp"
#include "ipc/varlink/connection.hpp"
#include "tests/ipc/fake_service.hpp"

namespace {

using namespace terrane::ipc;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "varlink_fuzz: %s\n", what);
  std::abort();
}

const varlink::interface_description& control_interface() {
  static const varlink::interface_description parsed =
      *varlink::parse_interface(control_interface_text);
  return parsed;
}

// What control_server makes of a call that the interface allows, for a caller who may do anything.
varlink::service protocol_to(const call_targets& targets) {
  varlink::service made({"Terrane", "terraned", "0.1.0", ""});
  made.add(control_interface(), [&](const varlink::checked_call& what, const varlink::reply& to) {
    const method_row* row = find_control_method(what.member);
    require(row != nullptr, "a method of the interface has no row");
    if (row->only_with_more && !what.more) {
      return to.fail({"org.varlink.service.ExpectedMore", {}});
    }
    row->call(targets, {what.from.uid, what.from.pid, access_level::admin}, what.parameters, to);
  });
  return made;
}

// The calls that the server has to answer, up to the first that is none.
std::deque<varlink::call> calls_of(std::string_view bytes, const varlink::limits& limits) {
  std::deque<varlink::call> calls;
  varlink::message_splitter splitter(limits.message_bytes);
  splitter.feed(bytes);
  while (const auto text = splitter.next()) {
    auto call = varlink::parse_call(*text, limits.nesting);
    if (!call) break;
    if (!call->oneway) calls.push_back(std::move(*call));
  }
  return calls;
}

class fuzzed_client {
 public:
  explicit fuzzed_client(int descriptor) : descriptor_(descriptor) {}
  ~fuzzed_client() { hang_up(); }
  fuzzed_client(const fuzzed_client&) = delete;
  fuzzed_client& operator=(const fuzzed_client&) = delete;

  void send(std::string_view bytes) {
    expected_ = calls_of(bytes, limits_);
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    require(sent == static_cast<ssize_t>(bytes.size()), "the socket has no room for the input");
  }
  void finish_sending() const { ::shutdown(descriptor_, SHUT_WR); }
  void hang_up() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }
  void receive() {
    std::array<char, 16 * 1024> chunk;
    for (;;) {
      const ssize_t got = ::recv(descriptor_, chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (got <= 0) break;
      splitter_.feed({chunk.data(), static_cast<std::size_t>(got)});
    }
    while (const auto text = splitter_.next()) check_reply(*text);
    require(!splitter_.in_message(), "half a reply");
  }

 private:
  void check_reply(const std::string& text) {
    const auto reply = varlink::parse_response(text, limits_.nesting);
    require(reply.has_value(), "a reply is no Varlink reply");
    if (expected_.empty()) {  // what was sent is no call
      require(reply->error == "org.varlink.service.InvalidParameter", "a reply to no call");
      return;
    }
    const varlink::call& to = expected_.front();
    const auto [interface, member] = varlink::split_member(to.method);
    require(!reply->continues || (to.more && !reply->error), "a stream that was not asked for");
    if (reply->error) {
      check_error(*reply->error, reply->parameters);
    } else if (interface == control_interface().name) {
      const auto method = control_interface().methods.find(member);
      require(method != control_interface().methods.end(), "a method that does not exist answers");
      require(!check(control_interface(), method->second.outputs, reply->parameters),
              "a reply that the interface does not allow");
    }
    if (!reply->continues) expected_.pop_front();
  }
  static void check_error(const std::string& name, const boost::json::object& parameters) {
    const auto [interface, member] = varlink::split_member(name);
    if (interface == "org.varlink.service") return;
    const auto known = control_interface().errors.find(member);
    require(interface == control_interface().name && known != control_interface().errors.end(),
            "an error that the interface does not have");
    require(!check(control_interface(), known->second, parameters),
            "an error that the interface does not allow");
  }

  const varlink::limits limits_;
  int descriptor_;
  varlink::message_splitter splitter_{limits_.message_bytes};
  std::deque<varlink::call> expected_;
};

void talk(std::string_view bytes) {
  fake_service service;
  service.pieces = {"Hello", " there"};
  service.commit_moves = true;
  event_hub events;
  const call_targets targets{service, events};
  const varlink::service protocol = protocol_to(targets);
  const varlink::limits limits;
  const varlink::server_errors errors{refuse::failed("given up"), refuse::failed("too long"),
                                      refuse::shutting_down(), refuse::too_many_connections(1)};
  boost::asio::io_context context{1};
  std::array<int, 2> ends{};
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "no socket");
  fuzzed_client client(ends[0]);
  varlink::connection::socket_type socket(context, boost::asio::local::stream_protocol(), ends[1]);
  bool closed = false;
  std::make_shared<varlink::connection>(std::move(socket), varlink::peer{}, protocol, limits,
                                        errors)
      ->start([&closed] { closed = true; });

  const auto settle = [&] {
    do client.receive();
    while (context.poll() > 0);
    client.receive();
  };
  client.send(bytes);
  settle();
  events.publish({});
  settle();
  client.finish_sending();
  settle();
  client.hang_up();
  while (context.poll() > 0) continue;
  require(closed, "the client is gone and the connection is not");
  require(events.subscribers() == 0, "a subscriber that is gone is kept");
}

void describe(std::string_view text) {
  const auto parsed = varlink::parse_interface(text);
  if (!parsed) {
    require(!parsed.error().message.empty(), "a description is refused without a reason");
    return;
  }
  require(parsed->text == text && !parsed->name.empty(), "a description is not what was given");
  const boost::json::object value = {{"a", 1}, {"b", {{"a", nullptr}}}, {"c", {1, "a"}}};
  for (const auto& [name, method] : parsed->methods) {
    check(*parsed, method.inputs, value);
    check(*parsed, method.outputs, {});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  talk(bytes);
  describe(bytes);
  return 0;
}
