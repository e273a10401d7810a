#include "engine/engine.hpp"

#include <algorithm>
#include <thread>

#include "engine/migration/mover.hpp"
#include "engine/placement/scratch.hpp"
#include "engine/session/step_loop.hpp"
#include "engine/tokenizer/from_gguf.hpp"
#include "engine/tuning/model_kernels.hpp"
#include "engine/tuning/tuning_gate.hpp"

namespace terrane::engine {

const char* to_string(stop_reason reason) {
  switch (reason) {
    case stop_reason::end_of_text:
      return "end_of_text";
    case stop_reason::max_tokens:
      return "max_tokens";
    case stop_reason::stop_text:
      return "stop_text";
    case stop_reason::context_full:
      return "context_full";
    case stop_reason::stopped:
      return "stopped";
    case stop_reason::closed:
      return "closed";
    case stop_reason::failed:
      return "failed";
  }
  return "unknown";
}

void reply_observer::on_logits(std::uint32_t, std::span<const float>) {}

namespace {

// Beyond so much nothing stays in a cache from one launch to the next.
constexpr std::size_t most_read_over = std::size_t{256} << 20;

tuning_report tune_for(const model& of, device& on, const workspace_shape& shape,
                       tuner_settings settings) {
  settings.read_over_bytes = std::min<std::uint64_t>(most_read_over, of.weight_bytes());
  return tune(on, kernels_of(of, on, shape), settings);
}

// Each device once: what is remembered of it, and what there is time for.
result<void> tune_all(const model& of, const device_rooms& rooms, const workspace_shape& shape,
                      const engine_options& options) {
  std::vector<std::uint32_t> order = options.placement;
  for (std::uint32_t d = 0; d < rooms.size(); d++) order.push_back(d);
  std::vector<bool> done(rooms.size(), false);
  const auto begin = options.tuning.now();
  auto left = static_cast<int>(rooms.size());
  for (std::uint32_t d : order) {
    if (done[d]) continue;
    done[d] = true;
    tuner_settings settings = options.tuning;
    const auto spent =
        std::chrono::duration_cast<std::chrono::milliseconds>(options.tuning.now() - begin);
    // Each gets its share of what is left.
    if (settings.budget)
      settings.budget = std::max(*settings.budget - spent, std::chrono::milliseconds(0)) / left--;
    if (tune_for(of, *rooms[d]->on, shape, settings).given_up)
      return fail(error_code::cancelled, "the start was given up");
  }
  return {};
}

std::vector<const device*> devices_of(const device_rooms& rooms) {
  std::vector<const device*> out;
  for (const std::unique_ptr<device_room>& room : rooms) out.push_back(room->on.get());
  return out;
}

class local_engine final : public inference_engine {
 public:
  local_engine(std::unique_ptr<const model> of, tokenizer words,
               std::unique_ptr<device_rooms> rooms, const engine_options& options,
               const workspace_shape& shape, std::vector<std::vector<resident_block_ptr>> blocks,
               std::unique_ptr<execution_plan> plan)
      : model_(std::move(of)),
        words_(std::move(words)),
        rooms_(std::move(rooms)),
        options_(options),
        shape_(shape),
        loop_(*model_, words_, *rooms_, options_, shape, std::move(blocks), std::move(plan)),
        mover_(*model_, *rooms_, shape, loop_, gate_,
               {options.warming, options.choose_refuge, options.on_refuge}) {
    for (const auto& room : *rooms_) devices_.push_back(room->on.get());
  }

  const model& loaded_model() const override { return *model_; }
  const tokenizer& words() const override { return words_; }
  std::span<device* const> devices() const override { return devices_; }
  const engine_options& options() const override { return options_; }

  result<session_id> generate(generate_request request,
                              std::shared_ptr<reply_observer> observer) override {
    const tuning_gate::use devices(gate_);
    return loop_.admit(std::move(request), std::move(observer));
  }
  result<void> stop(session_id id) override {
    return loop_.call([&] { return loop_.stop(id); });
  }
  result<void> close(session_id id, const std::string& by) override {
    result<void> closed = loop_.call([&] { return loop_.close(id, by); });
    if (closed) loop_.wait_for_releases();
    return closed;
  }

  result<move_id> move(move_request request, move_observer observer) override {
    result<void> ok = check(request);
    if (!ok) return tl::unexpected<error>(ok.error());
    const tuning_gate::use devices(gate_);
    return mover_.add(std::move(request), std::move(observer));
  }
  result<void> cancel_move(move_id id) override { return mover_.cancel(id); }

  result<tuning_report> tune(std::uint32_t device, std::chrono::milliseconds budget,
                             const std::function<bool(const tuning_progress&)>& progress) override {
    if (device >= rooms_->size())
      return fail(error_code::not_found, "there is no device number " + std::to_string(device));
    if (!gate_.begin_timing())
      return fail(error_code::conflict, "kernels are being timed already, or a request has come");
    result<tuning_report> report = tune_alone(device, budget, progress);
    gate_.end_timing();
    return report;
  }

  void give_back_scratch(std::uint32_t device) override { mover_.give_back_scratch(device); }

  void look_for_lost_devices() override {
    if (loop_.call([&] { return loop_.notice_lost(); })) mover_.seek_refuge();
  }

  void refuse_waiting(const std::string& why) override {
    loop_.call([&] { loop_.refuse({error_code::cancelled, why, ""}); });
  }

  engine_status status() override {
    engine_status out = loop_.while_still([&] { return loop_.status(); });
    out.moves = mover_.pending();
    out.links = mover_.traffic();
    for (const move_status& m : out.moves)
      for (const part_move& p : m.parts) out.parts[p.part].moving_to = p.device;
    return out;
  }
  std::uint64_t revision() const override { return loop_.revision(); }

 private:
  result<tuning_report> tune_alone(std::uint32_t device, std::chrono::milliseconds budget,
                                   const std::function<bool(const tuning_progress&)>& progress) {
    if (loop_.call([&] { return loop_.is_replying(); }))
      return fail(error_code::conflict, "a reply is being given; try again when it has ended");
    if (!mover_.pending().empty())
      return fail(error_code::conflict, "a move is under way; try again when it has ended");
    tuner_settings settings = options_.tuning;
    settings.again = true;
    settings.budget = budget;
    settings.progress = [&](const tuning_progress& p) {
      return !gate_.wanted() && (!progress || progress(p));
    };
    const tuning_report report = tune_for(*model_, *(*rooms_)[device]->on, shape_, settings);
    loop_.call([&] { loop_.renew_plan(); });
    return report;
  }

  result<void> check(const move_request& request) const {
    if (request.parts.empty() && !request.spill)
      return fail(error_code::invalid_input, "the move names no part");
    for (const part_move& m : request.parts) {
      if (m.part >= model_->parts().size())
        return fail(error_code::not_found, "there is no part number " + std::to_string(m.part));
      if (m.device >= rooms_->size())
        return fail(error_code::not_found, "there is no device number " + std::to_string(m.device));
    }
    if (request.spill) {
      for (std::uint32_t d : {request.spill->device.value_or(0), request.spill->from.value_or(0)})
        if (d >= rooms_->size())
          return fail(error_code::not_found, "there is no device number " + std::to_string(d));
    }
    if (request.revision && *request.revision != revision()) {
      return fail(error_code::conflict, "the move was decided on revision " +
                                            std::to_string(*request.revision) +
                                            ", the placement is at " + std::to_string(revision()));
    }
    return {};
  }

  std::unique_ptr<const model> model_;
  tokenizer words_;
  std::unique_ptr<device_rooms> rooms_;  // plans refer to it
  std::vector<device*> devices_;
  engine_options options_;
  workspace_shape shape_;
  tuning_gate gate_;
  step_loop loop_;
  mover mover_;
};

result<void> check_options(const model& of, std::size_t devices, engine_options& options) {
  if (options.rows == 0 || options.rows % 8 != 0)
    return fail(error_code::invalid_input, std::to_string(options.rows) + " is not a multiple of 8",
                "rows");
  if (options.sessions == 0 || options.sessions > 1024)
    return fail(error_code::invalid_input,
                std::to_string(options.sessions) + " is not between 1 and 1024", "sessions");
  if (options.context_tokens == 0) options.context_tokens = of.config().context_tokens;
  if (options.context_tokens > of.config().context_tokens) {
    return fail(error_code::invalid_input,
                std::to_string(options.context_tokens) + " is more than the " +
                    std::to_string(of.config().context_tokens) + " that the model was trained for",
                "context_tokens");
  }
  if (options.placement.empty()) options.placement.assign(of.parts().size(), 0);
  if (options.placement.size() != of.parts().size()) {
    return fail(error_code::invalid_input,
                "a placement of " + std::to_string(options.placement.size()) +
                    " parts for a model of " + std::to_string(of.parts().size()),
                "placement");
  }
  if (devices == 0 || devices > 32)
    return fail(error_code::invalid_input, "1 to 32 devices are supported", "devices");
  for (std::uint32_t d : options.placement) {
    if (d >= devices)
      return fail(error_code::not_found, "there is no device number " + std::to_string(d),
                  "placement");
  }
  return {};
}

}  // namespace

result<std::unique_ptr<inference_engine>> inference_engine::start(
    std::unique_ptr<const model> of, std::vector<std::unique_ptr<device>> devices,
    const engine_options& wanted, const load_progress& progress) {
  engine_options options = wanted;
  result<void> ok = check_options(*of, devices.size(), options);
  if (!ok) return tl::unexpected<error>(ok.error());
  result<vocabulary> read = read_vocabulary(of->file().meta());
  if (!read) return tl::unexpected<error>(read.error());
  result<tokenizer> words = tokenizer::make(std::move(*read));
  if (!words) return tl::unexpected<error>(words.error());

  auto rooms = std::make_unique<device_rooms>();
  for (std::uint32_t d = 0; d < devices.size(); d++) {
    rooms->push_back(std::make_unique<device_room>(std::move(devices[d]), d, *of));
    rooms->back()->weights.check_numbers(options.check_numbers);
    rooms->back()->weights.load_by(std::max(1u, std::thread::hardware_concurrency()));
  }
  const workspace_shape shape{options.rows, options.sessions, options.context_tokens,
                              attention_bytes(devices_of(*rooms), options)};
  ok = tune_all(*of, *rooms, shape, options);
  if (!ok) return tl::unexpected<error>(ok.error());
  options.tuning.progress = {};  // it was the start's
  std::vector<std::vector<resident_block_ptr>> blocks(of->parts().size());
  std::uint64_t total = 0, before = 0;
  for (part_index p = 0; p < blocks.size(); p++) total += of->part_bytes(p);
  for (part_index p = 0; p < blocks.size(); p++) {
    device_room& room = *(*rooms)[options.placement[p]];
    ok = room.open(*of, shape);
    if (!ok) return tl::unexpected<error>(ok.error());
    for (std::uint32_t b : of->parts()[p].blocks) {
      result<resident_block_ptr> block = room.weights.bring(
          b, nullptr, nullptr,
          [&](std::uint64_t done) { return !progress || progress(before + done, total); });
      if (!block) return tl::unexpected<error>(block.error());
      before += (*block)->description->bytes;
      blocks[p].push_back(std::move(*block));
    }
  }
  for (const auto& room : *rooms) room->weights.load_by(1);
  residency where{options.placement, std::vector<std::uint32_t>(of->config().layers, 0)};
  result<std::unique_ptr<execution_plan>> plan =
      execution_plan::make(*of, *rooms, std::move(where));
  if (plan) {
    ok = (*plan)->prepare({1, 1, 1});
    if (!ok) return tl::unexpected<error>(ok.error());
  }
  if (!plan) return tl::unexpected<error>(plan.error());
  return std::make_unique<local_engine>(std::move(of), std::move(*words), std::move(rooms), options,
                                        shape, std::move(blocks), std::move(*plan));
}

}  // namespace terrane::engine
