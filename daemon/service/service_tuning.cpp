// The part of the service that has kernels timed.
#include "daemon/journal/log.hpp"
#include "daemon/service/refusals.hpp"
#include "daemon/service/service.hpp"
#include "engine/tuning/device_tuning.hpp"

namespace terrane::daemon {

namespace {

// For each device; all kernels of a model take a few seconds.
constexpr std::chrono::minutes longest_tuning{2};

}  // namespace

void service::add_kernels(engine::device& from, std::vector<ipc::tuned_kernel_info>& to) {
  const std::shared_ptr<const engine::device_tuning> tuning = from.tuning();  // may be replaced
  for (const auto& [key, found] : tuning->found()) {
    ipc::tuned_kernel_info k;
    k.device = from.info().name;
    const std::size_t colon = key.find(": ");
    k.kernel = key.substr(0, colon);
    k.shape = key.substr(colon + 2);
    k.by_default = to_text(found.by_default);
    k.chosen = difference(found.chosen, found.by_default);
    k.default_us = found.default_us;
    k.gain = found.gain();
    to.push_back(std::move(k));
  }
}

void service::tuning(const ipc::caller&, ipc::answer<ipc::tuning_reply> to) {
  with_engine(to, [to](engine::inference_engine& e, control_loop&) {
    ipc::tuning_reply r;
    for (engine::device* d : e.devices()) add_kernels(*d, r.kernels);
    to.finish(r);
  });
}

void service::tune(const ipc::caller&, ipc::tune_request request, ipc::tune_stream to) {
  if (const auto refused = no_engine()) return to.fail(*refused);
  std::vector<std::uint32_t> devices;
  if (request.device) {
    const auto device = usable_device(*request.device);
    if (!device) return to.fail(device.error());
    devices.push_back(*device);
  } else {
    for (std::uint32_t d = 0; d < engine_->devices().size(); d++)
      if (!engine_->devices()[d]->lost()) devices.push_back(d);
  }
  tuner_.add([this, devices = std::move(devices), to] { tune_all(devices, to); });
}

void service::tune_all(const std::vector<std::uint32_t>& devices, const ipc::tune_stream& to) {
  ipc::tune_reply r;
  for (std::uint32_t d : devices) {
    if (to.cancelled() || state_ != ipc::daemon_state::ready) break;
    std::string told;
    const auto report = engine_->tune(d, longest_tuning, [&](const engine::tuning_progress& p) {
      if (p.kernel != told && !p.kernel.empty())
        to.progress({p.device + ", " + p.kernel,
                     static_cast<std::int64_t>(p.done),
                     static_cast<std::int64_t>(p.total),
                     {},
                     false});
      told = p.kernel;
      return !to.cancelled() && state_ == ipc::daemon_state::ready;
    });
    if (!report) return to.fail(refusal_of(report.error()));
    log(log_level::info, engine_->devices()[d]->info().name + ": " + std::to_string(report->timed) +
                             " kernels were timed" +
                             (report->given_up ? ", then a request came" : ""));
    r.done += static_cast<std::int64_t>(report->timed);
    r.total += static_cast<std::int64_t>(report->timed + report->left);
    add_kernels(*engine_->devices()[d], r.kernels);
    r.ended_early = report->given_up;
    if (report->given_up) break;
  }
  if (state_ == ipc::daemon_state::stopping) return to.fail(ipc::refuse::shutting_down());
  to.finish(r);
}

}  // namespace terrane::daemon
