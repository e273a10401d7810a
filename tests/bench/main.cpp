// terrane-bench: shows speed, exactness and pauses. One JSON object on stdout; see README.md beside
// this for its fields. Exit status: 0, 1 for a run that failed or did not show what it should, 2
// for usage.
#include <cstdio>
#include <fstream>
#include <iostream>

#include <CLI/CLI.hpp>

#include "tests/bench/devices.hpp"
#include "tests/bench/exact.hpp"
#include "tests/bench/move.hpp"
#include "tests/bench/profile.hpp"
#include "tests/bench/speed.hpp"
#include "tests/bench/synth.hpp"

namespace {

using namespace terrane;
using namespace terrane::bench;

int print(const result<boost::json::object>& r) {
  if (!r) {
    std::cerr << "terrane-bench: " << to_string(r.error()) << "\n";
    return 1;
  }
  std::cout << boost::json::serialize(*r) << std::endl;
  return 0;
}

int synth(const std::string& shape, const std::string& quant, const std::string& out,
          std::uint64_t seed) {
  result<void> ok =
      synthesize(shape, quant, out, seed, [](std::uint64_t done, std::uint64_t total) {
        std::fprintf(stderr, "\r%3.0f %%",
                     100.0 * static_cast<double>(done) / static_cast<double>(total));
      });
  std::fprintf(stderr, "\n");
  if (!ok) return print(tl::unexpected<error>(ok.error()));
  return print(
      boost::json::object{{"command", "synth"}, {"shape", shape}, {"quant", quant}, {"file", out}});
}

int exact(const exact_options& options) {
  result<boost::json::object> r = run_exact(options);
  if (print(r) != 0) return 1;
  const boost::json::value* missing = r->if_contains("not_shown");
  if (missing == nullptr) return 0;
  std::cerr << "terrane-bench: " << std::string(missing->as_string()) << "\n";
  return 1;
}

void add_model(CLI::App& app, model_choice& m) {
  app.add_option("--model", m.path, "GGUF file")->required()->check(CLI::ExistingFile);
  app.add_option("--context-limit", m.context_tokens,
                 "tokens of context a session may have (0: as trained)");
  app.add_option("--rows", m.rows,
                 "tokens of one step, a multiple of 8; 0: as many as a daemon takes")
      ->capture_default_str();
  app.add_option("--cache", m.cache_folder,
                 "folder of compiled code and self-test results (none: nothing is kept)");
  app.add_option("--threads", m.threads, "worker threads of the CPU (0: all cores)")
      ->check(CLI::Range(0, 4096));  // as a daemon's configuration
  app.add_flag("--tune", m.tune,
               "time the layouts of all kernels first (else: what --cache remembers of them)");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Benches and exactness checks of Terrane");
  app.require_subcommand(1);
  int status = 0;

  std::string shape, quant, out;
  std::uint64_t seed = 1;
  CLI::App* s =
      app.add_subcommand("synth", "write a GGUF of a published shape with random weights");
  s->add_option("--shape", shape,
                "llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, smollm2-135m, tiny, tiny-k, tiny-gemma3")
      ->required();
  s->add_option("--quant", quant, "a weight format (Q4_0, Q6_K, ...), or Q4_K_M")->required();
  s->add_option("--out", out, "the file to write")->required();
  s->add_option("--seed", seed)->capture_default_str();
  s->callback([&] { status = synth(shape, quant, out, seed); });

  exact_options e;
  std::string prompts_file;
  CLI::App* x =
      app.add_subcommand("exact", "a reply with moves against one without, every logit bit");
  add_model(*x, e.model);
  x->add_option("--devices", e.model.devices, "cpu,vulkan,... the first is the reference")
      ->required()
      ->delimiter(',');
  x->add_option("--moves", e.moves, "moves in each reply")->capture_default_str();
  x->add_option("--tokens", e.tokens, "tokens of each reply")->capture_default_str();
  x->add_option("--prompt", e.prompts, "a prompt (may be repeated); none: random tokens");
  x->add_option("--random-prompt", e.random_prompt, "tokens of a random prompt")
      ->capture_default_str();
  x->add_option("--prompt-chunk", e.prompt_chunk,
                "tokens of the prompt in one step of the moved run (0: as fits)");
  x->add_flag("--corrupt", e.corrupt, "flip one bit of a moved page: the result must say so");
  x->add_option("--seed", e.seed)->capture_default_str();
  x->callback([&] { status = exact(e); });

  move_options m;
  std::string from, to;
  CLI::App* mv = app.add_subcommand("move", "the pause when all layers move mid-reply");
  add_model(*mv, m.model);
  mv->add_option("--from", from)->required();
  mv->add_option("--to", to)->required();
  mv->add_option("--context", m.context, "tokens of prompt before the first move")
      ->capture_default_str();
  mv->add_option("--repeat", m.repeat, "moves, there and back in turn")->capture_default_str();
  mv->add_option("--seed", m.seed)->capture_default_str();
  mv->callback([&] {
    m.model.devices = {from, to};
    status = print(run_move(m));
  });

  speed_options p;
  std::string device;
  CLI::App* sp = app.add_subcommand("speed", "prefill and decode on one device");
  add_model(*sp, p.model);
  sp->add_option("--device", device)->required();
  sp->add_option("--prompt", p.prompt, "tokens of prompt")->capture_default_str();
  sp->add_option("--gen", p.generate, "tokens of reply")->capture_default_str();
  sp->add_option("--repeat", p.repeat, "runs; medians are printed")->capture_default_str();
  sp->callback([&] {
    p.model.devices = {device};
    status = print(run_speed(p));
  });

  profile_options f;
  CLI::App* pf = app.add_subcommand("profile", "the time of each kernel of a step");
  add_model(*pf, f.model);
  pf->add_option("--device", device)->required();
  pf->add_option("--prompt", f.prompt, "tokens of prompt")->capture_default_str();
  pf->add_option("--gen", f.generate, "tokens of reply")->capture_default_str();
  pf->callback([&] {
    f.model.devices = {device};
    status = print(run_profile(f));
  });

  std::string cache_folder;
  CLI::App* dv = app.add_subcommand("devices", "the devices of this machine, each self-tested");
  dv->add_option("--cache", cache_folder, "folder of compiled code and self-test results");
  dv->callback([&] { status = print(run_devices(cache_folder)); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  return status;
}
