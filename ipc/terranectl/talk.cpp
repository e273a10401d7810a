#include "ipc/terranectl/talk.hpp"

#include <array>

#include <unistd.h>

#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

std::string read_all(int descriptor) {
  std::string all;
  std::array<char, 4096> chunk;
  for (;;) {
    const ssize_t read = ::read(descriptor, chunk.data(), chunk.size());
    if (read <= 0) {
      return all;
    }
    all.append(chunk.data(), static_cast<std::size_t>(read));
  }
}

std::vector<chat_message> messages_for(const std::string& prompt, const talk_options& options) {
  std::vector<chat_message> messages;
  if (options.system) {
    messages.push_back({chat_role::system, *options.system});
  }
  messages.push_back({chat_role::user, prompt});
  return messages;
}

}  // namespace

generate_request base_request(const talk_options& options) {
  generate_request request;
  request.max_tokens = options.max_tokens;
  request.sampling = options.sampling;
  if (!options.stop.empty()) {
    request.stop = options.stop;
  }
  return request;
}

void print_piece(const context& with, std::string_view text) {
  with.out() << (with.around().out_is_terminal ? printable(text) : std::string(text)) << std::flush;
}

std::string summary_text(const generate_summary& summary) {
  std::string text = "[" + std::to_string(summary.generated_tokens) + " tokens";
  if (summary.decode_ms > 0 && summary.generated_tokens > 0) {
    const double per_second =
        1000 * static_cast<double>(summary.generated_tokens) / summary.decode_ms;
    text += ", " + decimal(per_second, 1) + "/s";
  }
  text +=
      ", prompt " + std::to_string(summary.prompt_tokens) + " tokens" +
      (summary.cached_tokens > 0 ? " (" + std::to_string(summary.cached_tokens) + " known already)"
                                 : "") +
      " in " + ms_text(summary.prefill_ms);
  if (summary.moves > 0) {
    text += ", " + std::to_string(summary.moves) + (summary.moves == 1 ? " move" : " moves") +
            ", longest pause " + ms_text(summary.longest_pause_ms);
  }
  if (summary.stop == stop_reason::max_tokens || summary.stop == stop_reason::context_full) {
    text += std::string(", ended by ") +
            (summary.stop == stop_reason::max_tokens ? "max-tokens" : "the end of the context");
  }
  if (summary.logits_hash) {
    text += ", logits " + *summary.logits_hash;
  }
  return text + "]";
}

std::string closed_text(const generate_summary& summary) {
  const std::string by = summary.closed_by.value_or("");
  return "the session was closed" + (by.empty() ? "" : " by " + by) + " before the reply's end";
}

int generate(const context& with, const std::string& prompt, const talk_options& options) {
  const bool from_input = prompt.empty() || prompt == "-";
  const std::string text = from_input ? read_all(with.around().input) : prompt;
  if (text.empty()) {
    return with.fail("there is no prompt: give one, or pipe one in", exit_usage);
  }
  generate_request request = base_request(options);
  if (options.as_chat || options.system) {
    request.messages = messages_for(text, options);
  } else {
    request.prompt = text;
  }
  int code = exit_done;
  bool said = false;  // something of the reply
  auto client = with.connect(code);
  if (!client) {
    return code;
  }
  const auto ended = client->stream(
      method_name("Generate"), to_json(request), [&](const boost::json::object& object, bool) {
        const auto reply = with.understand<generate_reply>(object, code);
        if (!reply) {
          return false;
        }
        const bool closed = reply->summary && reply->summary->stop == stop_reason::closed;
        if (with.json()) {
          with.print_json(object);
          code = closed ? exit_failed : code;
          return true;
        }
        print_piece(with, reply->text);
        said = said || !reply->text.empty();
        if (closed) {
          with.out() << std::endl;
          code = with.fail(closed_text(*reply->summary));
        } else if (reply->summary) {
          with.out() << std::endl;
          if (options.statistics) {
            with.err() << with.paint(colour::dim, summary_text(*reply->summary)) << "\n";
          }
        }
        return true;
      });
  if (ended) {
    return code;
  }
  if (said) {
    with.out() << std::endl;
  }
  return with.report(ended.error());
}

}  // namespace terrane::ipc::ctl
