// What the daemon's tuner found, and having it look again.
#include "ipc/terranectl/commands.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

std::string microseconds(double us) { return us == 0 ? "not timed" : decimal(us, 1) + " us"; }

void print_kernels(const context& with, const std::vector<tuned_kernel_info>& kernels) {
  if (kernels.empty()) {
    with.out() << "no kernel was timed; terranectl tune does\n";
    return;
  }
  std::vector<std::string> all;
  for (const tuned_kernel_info& one : kernels) {
    all.push_back(one.device);
  }
  const device_names names(all);
  table rows({{"DEVICE"},
              {"KERNEL"},
              {"SHAPE", align::left, true},
              {"DEFAULT", align::right},
              {"GAIN", align::right},
              {"CHOSEN"}});
  for (const tuned_kernel_info& one : kernels) {
    rows.add({names.brief(one.device), one.kernel, one.shape, microseconds(one.default_us),
              one.gain > 0 ? decimal(100 * one.gain, 1) + " %" : "",
              one.chosen.empty() ? "as by default" : one.chosen});
  }
  with.print(rows);
}

void print_progress(const context& with, const tune_reply& reply) {
  if (with.around().out_is_terminal) {
    with.out() << "\r\033[K" << reply.done << " of " << reply.total << ": "
               << cut(printable(reply.timing), 60) << std::flush;
  }
}

void print_result(const context& with, const tune_reply& reply) {
  if (with.around().out_is_terminal) {
    with.out() << "\r\033[K";
  }
  print_kernels(with, reply.kernels);
  if (reply.ended_early) {
    with.out() << "ended early, because a request came; what was timed by then is kept\n";
  }
}

}  // namespace

int show_tuning(const context& with) {
  return with.show<tuning_reply>(
      "Tuning", {}, [&](const tuning_reply& reply) { print_kernels(with, reply.kernels); });
}

int tune(const context& with, const std::string& device) {
  int code = exit_done;
  tune_request request;
  if (!device.empty()) {
    request.device = with.full_device(device, code);
    if (!request.device) {
      return code;
    }
  }
  auto client = with.connect(code);
  if (!client) {
    return code;
  }
  const auto tuned = client->stream(
      method_name("Tune"), to_json(request), [&](const boost::json::object& object, bool more) {
        if (with.json()) {
          with.print_json(object);
        } else if (const auto reply = with.understand<tune_reply>(object, code)) {
          more ? print_progress(with, *reply) : print_result(with, *reply);
        }
        return true;
      });
  return tuned ? code : with.report(tuned.error());
}

}  // namespace terrane::ipc::ctl
