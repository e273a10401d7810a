#include "tests/ipc/fake_service.hpp"

#include <algorithm>

namespace terrane::ipc {
namespace {

constexpr const char* gpu = "vulkan:0d1e2f30-0000-0000-0000-000000000001";
constexpr std::int64_t mib = 1024 * 1024;

part_placement placed(const char* part, const char* device) {
  part_placement made;
  made.part = part;
  made.device = device;
  made.weights_bytes = 3 * mib;
  made.kv_bytes = 64 * 1024;
  made.since_unix_ms = 1'700'000'000'000;
  made.by = "start";
  made.reason = "first placement";
  return made;
}

std::vector<part_placement> parts() {
  return {placed("embedding", "cpu"),   placed("layer.0.attn", "cpu"),
          placed("layer.0.ffn", "cpu"), placed("layer.1.attn", "cpu"),
          placed("layer.1.ffn", gpu),   placed("head", "cpu")};
}

decision_info decision(std::int64_t id) {
  decision_info made;
  made.id = id;
  made.time_unix_ms = 1'700'000'000'000;
  made.snapshot = 12;
  made.by = "policy vram-spill";
  made.object = gpu;
  made.source = "vram.yaml:3:5";
  made.conditions.push_back({"vram.used_ratio", unit::ratio, condition_side::above, 0.92,
                             std::nullopt, 0.95, 0.4, condition_verdict::met, 6, 5});
  made.candidates.push_back({action_verb::move, "layer.1.ffn", gpu, "cpu", 3 * mib, std::nullopt,
                             "bring VRAM back to 84 %"});
  for (const char* part : {"layer.1.ffn", "layer.1.attn"}) {
    made.actions.push_back({action_verb::move, part, gpu, "cpu", 3 * mib, "bring VRAM back to 84 %",
                            action_outcome::done, std::nullopt, 1.25, 7.5, 4.0, 1.5, 4 * mib, 31.5,
                            30.0});
  }
  made.actions.push_back({action_verb::move,
                          "layer.0.ffn",
                          gpu,
                          "cpu",
                          3 * mib,
                          "bring VRAM back to 84 %",
                          action_outcome::failed,
                          "no room",
                          {},
                          {},
                          4.0,
                          {},
                          std::nullopt,
                          std::nullopt,
                          std::nullopt});
  made.text = "vram-spill moved layer.1.ffn to cpu.";
  return made;
}

}  // namespace

fake_service::open_reply fake_service::next_generate() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !generates_.empty(); });
  open_reply first = generates_.front();
  generates_.erase(generates_.begin());
  return first;
}

fake_service::open_move fake_service::next_move() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !moves_.empty(); });
  open_move first = moves_.front();
  moves_.erase(moves_.begin());
  return first;
}

std::vector<std::string> fake_service::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

void fake_service::wait_for(const std::string& asked) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return std::count(asked_.begin(), asked_.end(), asked) > 0; });
}

void fake_service::note(std::string what) {
  const std::lock_guard lock(mutex_);
  asked_.push_back(std::move(what));
  changed_.notify_all();
}

void fake_service::status(const caller& who, answer<status_reply> to) {
  status_reply reply;
  reply.version = "0.1.0";
  reply.state = state;
  if (state == daemon_state::failed) {
    reply.reason = "tiny.gguf: is truncated";
  }
  reply.access = who.level;
  reply.pid = pid;
  reply.uptime_s = uptime_s;
  reply.revision = revision;
  reply.policy_revision = "00c0ffee00c0ffee";
  reply.model = model_info{"tiny", "tiny.gguf", "llama", "Q8_0", 2, 2048, 18 * mib, "chatml"};
  reply.devices = 2;
  reply.decode_tok_s = 12.5;
  reply.warnings = {"the GPU is warm"};
  reply.predictions = {{prediction_of::bytes, 12, 1},
                       {prediction_of::time, 12, 1.125},
                       {prediction_of::pause, 12, 0.95},
                       {prediction_of::token_time, 8, 1.05}};
  reply.yields = yields;
  reply.switched_off = switched_off;
  to.finish(reply);
}

void fake_service::devices(const caller&, answer<devices_reply> to) {
  device_info cpu;
  cpu.name = "cpu";
  cpu.description = "A processor";
  cpu.total_bytes = 8192 * mib;
  cpu.free_bytes = 4096 * mib;
  cpu.parts = 5;
  device_info card;
  card.name = gpu;
  card.kind = device_kind::vulkan;
  card.description = "A card";
  card.total_bytes = 1024 * mib;
  card.free_bytes = 512 * mib;
  card.temperature_c = 61.5;
  card.parts = 1;
  to.finish({revision,
             {cpu, card},
             {{"cpu", gpu, path_way::host, std::nullopt},
              {gpu, "cuda:a-b-c", path_way::staged, "the driver has no peer access"}},
             yields});
}

void fake_service::placement(const caller&, answer<placement_reply> to) {
  to.finish({revision, parts()});
  if (moves_by_itself) revision++;
}

void fake_service::telemetry(const caller&, answer<telemetry_reply> to) {
  to.finish({12,
             {{"vram.used_ratio", gpu, 0.5, unit::ratio, "device memory", 0.25, false},
              {"vram.used", gpu, 1.5 * 1024 * mib, unit::bytes, "device memory", 0.25, false}}});
}

void fake_service::snapshot(const caller&, answer<snapshot_reply> to) {
  to.finish({12, "a snapshot\n"});
}

void fake_service::generate(const caller& who, generate_request request, generate_stream to) {
  if (pieces.empty()) {
    const std::lock_guard lock(mutex_);
    generates_.push_back({who, std::move(request), std::move(to)});
    changed_.notify_all();
    return;
  }
  note("generate " + (request.prompt ? *request.prompt : request.messages->back().content));
  to.started(3);
  for (const std::string& piece : pieces) {
    to.text(piece);
  }
  generate_summary summary;
  summary.prompt_tokens = 4;
  summary.generated_tokens = static_cast<std::int64_t>(pieces.size());
  summary.decode_ms = 100;
  summary.logits_hash = "0123456789abcdef";
  to.finish(summary);
}

bool fake_service::may_touch(const caller& who, std::int64_t session,
                             const std::function<void(refusal)>& fail) {
  if (session != 3) {
    fail(refuse::unknown_session(session));
    return false;
  }
  if (!who.may_use(session_owner_uid)) {
    fail(refuse::not_your_session(session));
    return false;
  }
  return true;
}

void fake_service::stop_generate(const caller& who, std::int64_t session, answer<nothing> to) {
  if (may_touch(who, session, [&](const refusal& error) { to.fail(error); })) {
    note("stop " + std::to_string(session));
    to.finish({});
  }
}

void fake_service::sessions(const caller& who, answer<sessions_reply> to) {
  session_info one;
  one.id = 3;
  one.owner_uid = session_owner_uid;
  one.context_tokens = 100;
  one.context_limit_tokens = 2048;
  one.kv = {{"cpu", 2 * mib}};
  sessions_reply reply;
  if (who.may_use(session_owner_uid)) {
    reply.sessions.push_back(one);
  }
  to.finish(reply);
}

void fake_service::close_session(const caller& who, std::int64_t session, answer<nothing> to) {
  if (may_touch(who, session, [&](const refusal& error) { to.fail(error); })) {
    note("close " + std::to_string(session));
    to.finish({});
  }
}

void fake_service::move(const caller&, move_request request, move_stream to) {
  if (request.revision && *request.revision != revision) {
    return to.fail(refuse::stale_revision(*request.revision, revision));
  }
  if (request.device != "cpu" && request.device != gpu) {
    return to.fail(refuse::unknown_device(request.device, {"cpu", gpu}));
  }
  if (!commit_moves) {
    const std::lock_guard lock(mutex_);
    moves_.push_back({std::move(request), std::move(to)});
    changed_.notify_all();
    return;
  }
  std::string moved = "move";
  for (const std::string& part : request.parts) {
    moved += " " + part;
  }
  note(moved + " to " + request.device);
  move_reply progress{5, move_state::preparing, revision, 6 * mib, 3 * mib, {}, {}, {}};
  to.progress(progress);
  to.finish({5, move_state::committed, ++revision, 6 * mib, 6 * mib, 1.5, 4096, move_notes});
}

void fake_service::cancel_move(const caller&, std::int64_t move, answer<nothing> to) {
  if (move != 5) {
    return to.fail(refuse::unknown_move(move));
  }
  note("cancel 5");
  to.finish({});
}

void fake_service::spill_kv(const caller& who, spill_kv_request request, answer<kv_reply> to) {
  if (may_touch(who, request.session, [&](const refusal& error) { to.fail(error); })) {
    note("spill 3");
    to.finish({2 * mib, ++revision});
  }
}

void fake_service::fetch_kv(const caller& who, fetch_kv_request request, answer<kv_reply> to) {
  if (may_touch(who, request.session, [&](const refusal& error) { to.fail(error); })) {
    note("fetch 3");
    to.finish({2 * mib, ++revision});
  }
}

void fake_service::policy_list(const caller&, answer<policy_list_reply> to) {
  policy_info one;
  one.name = "vram-spill";
  one.source = "vram.yaml:3:5";
  one.priority = 50;
  one.objects = {{gpu, "idle", decision(41).conditions}};
  to.finish({"00c0ffee00c0ffee", {one}, yields});
}

void fake_service::policy_lint(const caller&, policy_lint_request request,
                               answer<policy_lint_reply> to) {
  policy_lint_reply reply{true, {}};
  if (request.content.find("fault") != std::string::npos) {
    reply.valid = false;
    reply.diagnostics.push_back(
        {request.file, 2, 3, diagnostic_severity::error, "unknown key \"fault\""});
  }
  to.finish(reply);
}

namespace {

std::vector<tuned_kernel_info> tuned_kernels() {
  return {{"cpu", "linear", "many rows, K 576, Q4_1 576", "columns 16, order rows_first",
           "order columns_first", 165.4, 0.093},
          {"cpu", "attention", "few rows, 9 heads of 64 on 3", "keys halves", "", 14.7, 0},
          {gpu, "linear", "few rows, K 576, Q4_1 576", "warps 1", "", 0, 0}};
}

}  // namespace

void fake_service::tuning(const caller&, answer<tuning_reply> to) { to.finish({tuned_kernels()}); }

void fake_service::tune(const caller&, tune_request request, tune_stream to) {
  note("tune " + request.device.value_or("all"));
  if (request.device == "cpu") return to.fail(refuse::busy("a reply is being given"));
  to.progress({std::string(gpu) + ", linear: few rows, K 576, Q4_1 576", 1, 3, {}, false});
  to.finish({"", 3, 3, tuned_kernels(), false});
}

void fake_service::policy_reload(const caller&, answer<policy_reload_reply> to) {
  to.fail(refuse::policy_invalid(
      {{"vram.yaml", 3, 5, diagnostic_severity::error, "leave must be below enter"}},
      "the old set stays in force"));
}

void fake_service::switch_policy(const caller&, policy_switch request,
                                 answer<policy_switch_reply> to) {
  if (request.name != "vram-spill") {
    return to.fail(refuse::unknown_policy(request.name, {"vram-spill"}));
  }
  to.finish({request.name, request.enabled, orders_not_kept});
}

void fake_service::yield(const caller&, yield_request request, yield_stream to) {
  const std::string device = request.device.value_or(gpu);
  const auto until = request.for_s ? std::optional<std::int64_t>(1'700'000'000'000) : std::nullopt;
  to.progress({device, yield_state::leaving, 3 * mib, 0, std::nullopt, until, orders_not_kept});
  to.progress({device, yield_state::leaving, 1 * mib, 0, std::nullopt, until, orders_not_kept});
  if (device == "cpu") return to.fail(refuse::not_freed(device, 2 * mib, "no room elsewhere"));
  to.finish({device, yield_state::free, 0, 2 * mib, std::nullopt, until, orders_not_kept});
}

void fake_service::end_yield(const caller&, end_yield_request, answer<end_yield_reply> to) {
  to.finish({{{gpu, 3}, {"cpu", 0}}, orders_not_kept});
}

void fake_service::plan(const caller&, plan_request request, answer<plan_reply> to) {
  plan_reply reply{revision, {}, {{prediction_of::time, 12, 1.125}}};
  if (request.assume) {
    reply.decisions.push_back(decision(0));
  }
  to.finish(reply);
}

void fake_service::explain(const caller&, std::int64_t id, answer<explain_reply> to) {
  if (id != 41) {
    return to.fail(refuse::unknown_decision(id, 40, 41));
  }
  to.finish({decision(41)});
}

void fake_service::why(const caller&, std::string part, answer<why_reply> to) {
  for (const part_placement& one : parts()) {
    if (one.part == part) {
      return to.finish({one, part + " is on " + one.device + ".", decision(41), std::nullopt});
    }
  }
  to.fail(refuse::unknown_part(part, {"embedding", "layer.0.attn", "head"}));
}

}  // namespace terrane::ipc
