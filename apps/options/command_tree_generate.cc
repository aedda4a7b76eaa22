// harmonics generate and harmonics serve.
#include <harmonics/transport/binding.h>

#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

constexpr std::int64_t kMostTokens = 1 << 20;
constexpr std::int64_t kMostCacheMb = 1 << 20;
constexpr std::int64_t kMostSeconds = 1'000'000;

// A number from `least` to `most`.
CLI::Option* add_real(CLI::App& app, const std::string& name, double& value, double most,
                      const std::string& help) {
  const auto number = [name, most](const std::string& text) {
    const auto given = number_from<double>(text);
    if (!given || !(*given >= 0) || *given > most) {
      fail(ErrorCode::kInvalidArgument, "'{}' is not a number from 0 to {}", text, most);
    }
    return *given;
  };
  return app
      .add_option_function<std::string>(
          name, [&value, number](const std::string& text) { value = number(text); }, help)
      ->type_name("X")
      ->check(check_by([number](const std::string& text) { (void)number(text); }));
}

std::string transport_names() {
  std::string names;
  for (const NamedTransport& each : kRemoteTransports) {
    if (each.transport == RemoteTransport::Flight) continue;
    names += (names.empty() ? "" : "|") + std::string(each.name);
  }
  return names;
}

// Parts on other machines, which 'harmonics stage --generate' runs there.
void add_stage_hosts(CLI::App& app, TextModelFlags& model) {
  StageAccessFlags& access = model.access;
  CLI::Option* const plan =
      add_path(app, "--plan", model.plan, "cut as this plan says, in place of --parts")
          ->excludes(app.get_option("--parts"));
  CLI::Option* const hosts =
      add_path(app, "--hosts", model.hosts,
               "lines 'host: address:port': its parts wait there ('harmonics stage --generate')")
          ->needs(plan)
          ->excludes(app.get_option("--processes"))
          ->excludes(app.get_option("--transport"))
          ->excludes(app.get_option("--backend"))
          ->excludes(app.get_option("--deterministic"));
  add_text(app, "--run", access.run, "NAME", "name of the run, the same in all parts")
      ->needs(hosts);
  add_path(app, "--stage-token-file", access.token_file, "the secret that all parts know")
      ->needs(hosts);
  add_path(app, "--stage-tls-certificate", access.tls_certificate, "PEM file to show to the parts")
      ->needs(hosts);
  add_path(app, "--stage-tls-key", access.tls_key, "PEM file of its key")->needs(hosts);
  add_path(app, "--stage-tls-authority", access.tls_authority, "PEM file to check the parts by")
      ->needs(hosts);
  add_whole(app, "--first-contact", access.first_contact_s, {1, kMostSeconds},
            "seconds to wait for all parts, at the start and after a loss (60)")
      ->needs(hosts);
  add_whole(app, "--deadline", access.deadline_s, {1, kMostSeconds},
            "seconds after which a step that has not come back from other processes is lost (60)");
}

constexpr const char* kDeterministicHelp =
    "on a GPU: the same bits whatever is computed beside it, and slower (a CPU's are always)";

void add_computing(CLI::App& app, TextComputing& computing) {
  add_choice(app, "--backend", computing.backend, "cpu|gpu|auto",
             "what computes (cpu); auto: a GPU where one answers");
  app.add_flag("--deterministic", computing.deterministic, kDeterministicHelp)->option_text(" ");
}

}  // namespace

void CommandTree::add_stage_generation(CLI::App& stage) {
  stage
      .add_flag("--generate", stage_.generate,
                "one part of a language model, for 'harmonics generate' and 'serve' elsewhere")
      ->option_text(" ");
  add_whole(stage, "--cache-mb", stage_.cache_mb, {1, kMostCacheMb},
            "with --generate: memory for keys and values, in MB (1024)");
  stage
      .add_flag("--deterministic", stage_.computing.deterministic,
                std::string("with --generate, ") + kDeterministicHelp)
      ->option_text(" ");
}

void CommandTree::add_text_model(CLI::App& app, TextModelFlags& model) {
  add_path(app, "MODEL", model.model,
           "a .harp file, a folder from Hugging Face or a GGUF file of a language model")
      ->required()
      ->option_text("(required)");
  add_path(app, "--weights", model.weights, "weights of a .harp file, in place of what it names");
  add_path(app, "--tokenizer", model.tokenizer,
           "tokenizer.json, folder or GGUF file, in place of the model's own")
      ->type_name("PATH");
  add_whole(app, "--parts", model.parts, {1, 10'000}, "cut the model into so many parts (1)");
  app.add_flag("--processes", model.processes, "each part in a process of its own")
      ->option_text(" ");
  add_name(app, "--transport", model.transport, transport_names(),
           "what joins the processes (shm)");
  add_computing(app, model.computing);
  add_stage_hosts(app, model);
  add_whole(app, "--threads", model.threads, {1, 256}, "threads of each part (1)");
  add_whole(app, "--cache-mb", model.cache_mb, {1, kMostCacheMb},
            "memory for keys and values of each part, in MB (1024)");
  add_whole(app, "--sequences", model.sequences, {1, 1024},
            "sequences that are computed at the same time (16)");
  add_whole(app, "--chunk", model.chunk, {1, 8192}, "tokens of prompts in one step (128)");
}

void CommandTree::add_generate() {
  CLI::App& app = *root_.add_subcommand("generate", "lets a language model go on with texts");
  add_text_model(app, generate_.model);
  CLI::Option* const prompt =
      app.add_option_function<std::string>(
             "--prompt", [this](const std::string& given) { generate_.prompt = given; },
             "the text to go on with")
          ->type_name("TEXT");
  CLI::Option* const prompts =
      add_path(app, "--prompts", generate_.prompts,
               "JSON lines: texts, or objects with \"prompt\" or \"messages\"")
          ->excludes(prompt);
  app.add_flag("--chat", generate_.chat, "the prompt is what a user says to the model")
      ->option_text(" ");
  add_text(app, "--system", generate_.system, "TEXT", "with --chat: what the model is told first");
  add_whole(app, "--max-tokens", generate_.max_tokens, {1, kMostTokens},
            "the most tokens of an answer (256)");
  add_real(app, "--temperature", generate_.temperature, 100,
           "how freely tokens are drawn (0: always the most likely one)");
  add_real(app, "--top-p", generate_.top_p, 1,
           "draw from the most likely tokens that come to this probability (1)");
  add_whole(app, "--top-k", generate_.top_k, {0, kMostTokens},
            "draw from so many of the most likely tokens (0: all)");
  add_whole(app, "--seed", generate_.seed, {0, std::int64_t{1} << 62},
            "what chance follows from, with prompt and position (0)");
  add_texts(app, "--stop", generate_.stop, "TEXT", "end before this text (repeatable)");
  app.add_flag("--ignore-end", generate_.ignore_end,
               "go on to --max-tokens, past the model's own end")
      ->option_text(" ");
  add_output(app, generate_.output);
  app.footer(example(
      "  harmonics generate SmolLM2-135M-Instruct.Q4_1.gguf --chat --prompt 'What is the moon?'\n"
      "  harmonics generate smollm2 --prompts questions.jsonl --temperature 0.7 --top-p 0.9 "
      "--output json\n\n"
      "The answer to one prompt streams to standard output; those to --prompts come line by line, "
      "in their order. --output json prints a line of JSON for each, with tokens, the logarithms "
      "of their probabilities and times. What comes out depends on model, prompt and settings "
      "alone: not on parts, threads, chunks or on what is computed beside it; on a GPU, with "
      "--deterministic."));
  app.callback([this, prompt, prompts] {
    if (prompt->count() + prompts->count() == 0) throw CLI::RequiredError("--prompt or --prompts");
    command_ = generate_;
  });
}

void CommandTree::add_token_stage() {
  CLI::App& app = *root_.add_subcommand("token-stage", "one part of 'generate --processes'");
  app.group("");  // started by 'generate' and 'serve', not by hand
  add_path(app, "MODEL", token_stage_.model, "the model")->required();
  add_path(app, "--weights", token_stage_.weights, "weights of a .harp file");
  add_whole(app, "--first", token_stage_.first, {0, 1 << 20}, "its first layer");
  add_whole(app, "--end", token_stage_.end, {1, 1 << 20}, "the layer after its last");
  add_computing(app, token_stage_.computing);
  add_whole(app, "--threads", token_stage_.threads, {1, 256}, "threads (1)");
  add_whole(app, "--cache-mb", token_stage_.cache_mb, {1, kMostCacheMb}, "cache in MB (1024)");
  add_text(app, "--in", token_stage_.in, "URL", "where steps come from")->required();
  add_text(app, "--out", token_stage_.out, "URL", "where they go on to")->required();
  add_text(app, "--run", token_stage_.run, "NAME", "what both ends call the run");
  app.callback([this] { command_ = token_stage_; });
}

void CommandTree::add_serve() {
  CLI::App& app = *root_.add_subcommand(
      "serve", "answers requests to a language model over HTTP, as OpenAI's API does");
  add_text_model(app, serve_.model);
  add_text(app, "--listen", serve_.listen, "HOST:PORT", "where it listens (127.0.0.1:8000)");
  add_text(app, "--name", serve_.name, "TEXT", "what it is called in /v1/models (its file's name)");
  add_path(app, "--token-file", serve_.token_file,
           "a secret that clients show as their key (or HARMONICS_TOKEN in the environment)");
  add_path(app, "--keys-file", serve_.keys_file,
           "lines 'NAME KEY': keys of several clients, who take turns while requests wait");
  add_path(app, "--tls-certificate", serve_.tls_certificate, "PEM file to show");
  add_path(app, "--tls-key", serve_.tls_key, "PEM file of its key");
  add_path(app, "--tls-authority", serve_.tls_authority,
           "PEM file to check the certificates of clients by");
  add_whole(app, "--queue", serve_.queue, {1, 65'536}, "requests that may wait (256)");
  add_whole(app, "--max-tokens", serve_.max_tokens, {1, kMostTokens},
            "the most tokens of an answer, and what one has that does not say (1024)");
  app.footer(example(
      "  harmonics serve SmolLM2-135M-Instruct.Q4_1.gguf --listen 127.0.0.1:8000\n"
      "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is the moon?\"}]}'\n\n"
      "/v1/chat/completions, /v1/completions and /v1/models, with \"stream\": true as server-sent "
      "events; /metrics for Prometheus. It ends on SIGINT or SIGTERM once running answers have."));
  app.callback([this] { command_ = serve_; });
}

}  // namespace harmonics::inline in_options
