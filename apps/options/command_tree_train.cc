// harmonics train, harmonics stage and harmonics run.
#include <algorithm>
#include <array>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/slowdown.h>
#include <harmonics/transport/binding.h>
#include <harmonics/transport/packing.h>

#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

constexpr std::int64_t kMaxRestarts = 1'000'000;
constexpr std::int64_t kMaxSeconds = 1'000'000'000;
constexpr std::int64_t kMaxParts = 100'000;
constexpr std::int64_t kMaxReplicas = 1023;
constexpr std::int64_t kMaxBatches = std::int64_t{1} << 50;
constexpr std::int64_t kMaxStreamInFlight = 4096;
constexpr std::int64_t kMaxServedMs = 1'000'000'000;
constexpr std::int64_t kMaxQueueRows = std::int64_t{1} << 24;

// Settings that mean something without learning.
constexpr std::array kRunSettings = {"batch_size", "parts", "threads", "backend", "reproducible"};

/// "bus|shm|tcp", and the others between processes.
std::string carriers() {
  std::string names = "bus";
  for (const NamedTransport& one : kRemoteTransports) names += format("|{}", one.name);
  return names;
}

Binding split_binding(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not of the form NAME=csv:PATH", text);
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

AxisValues::value_type split_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not of the form T=128", text);
  }
  return {text.substr(0, equals), whole_number(text.substr(equals + 1), 1, kMaxAxisCeiling)};
}

// "8", or "hidden@1=8".
BitsFlag split_bits(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  BitsFlag flag;
  if (equals != std::string::npos) flag.boundary = text.substr(0, equals);
  const std::string number = equals == std::string::npos ? text : text.substr(equals + 1);
  const auto known =
      std::ranges::find_if(kBoundaryBits, [&](int bits) { return std::to_string(bits) == number; });
  if (known == kBoundaryBits.end() || equals == 0) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is not of the form N or BOUNDARY=N with N 32, 16, 8 or 4", text);
  }
  flag.bits = *known;
  return flag;
}

void add_bits(CLI::App& app, const std::string& flag, std::vector<BitsFlag>& bits,
              const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         flag,
         [&bits, flag](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const BitsFlag one = split_bits(text);
             if (std::ranges::find(bits, one.boundary, &BitsFlag::boundary) != bits.end()) {
               throw CLI::ValidationError(flag, one.boundary.empty()
                                                    ? "is given twice for all boundaries"
                                                    : format("'{}' is given twice", one.boundary));
             }
             bits.push_back(one);
           }
         },
         help)
      ->type_name("N|NAME=N")
      ->allow_extra_args(false)
      ->check(check_by([](const std::string& text) { static_cast<void>(split_bits(text)); }));
}

constexpr const char* kBitsHelp =
    "bits of what crosses boundaries: 32 (exact), 16, 8, 4; of all, or of one (repeatable)";

}  // namespace

void add_bindings(CLI::App& app, const std::string& flag, std::vector<Binding>& bindings,
                  const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         flag,
         [&bindings, flag](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             Binding binding = split_binding(text);
             for (const Binding& other : bindings) {
               if (other.name != binding.name) continue;
               throw CLI::ValidationError(flag, format("'{}' is given twice", binding.name));
             }
             bindings.push_back(std::move(binding));
           }
         },
         help)
      ->type_name("NAME=SPEC")
      ->allow_extra_args(false)
      ->check(check_by([](const std::string& text) { static_cast<void>(split_binding(text)); }));
}

void add_axes(CLI::App& app, AxisValues& axes, const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         "--axis",
         [&axes](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             if (axes.insert(split_axis(text)).second) continue;
             throw CLI::ValidationError("--axis",
                                        format("'{}' is given twice", split_axis(text).first));
           }
         },
         help)
      ->type_name("NAME=N")
      ->allow_extra_args(false)
      ->check(check_by([](const std::string& text) { static_cast<void>(split_axis(text)); }));
}

void add_setting(CLI::App& app, const TrainSettingRule& rule, std::vector<Setting>& settings) {
  const std::string flag = flag_of(rule);
  const auto remember = [&rule, &settings](const std::string& text) {
    settings.push_back({rule.key, text, 0});
  };
  if (is_switch(rule)) {
    CLI::Option* yes = app.add_flag_callback(
        flag, [remember] { remember("true"); }, rule.help);
    CLI::Option* no = app.add_flag_callback(
        setting_words(rule, "false").front(), [remember] { remember("false"); },
        "switches " + flag + " off");
    no->excludes(yes);
    for (CLI::Option* option : {yes, no}) option->option_text(" ");  // not "Excludes: …"
    return;
  }
  app.add_option_function<std::string>(flag, remember, rule.help)
      ->type_name(rule.placeholder)
      ->check(check_by([&rule](const std::string& text) {
        TrainSettings scratch;
        rule.apply(scratch, text);
      }));
}

namespace {

// What train and stage have in common.
void add_training(CLI::App& app, TrainCommand& command) {
  add_model_file(app, command.file);
  add_bindings(app, "--bind", command.bindings, "data of a producer (repeatable)");
  add_axes(app, command.axes, "one length for a named axis in all batches (repeatable)");
  for (const TrainSettingRule& rule : train_setting_rules()) {
    add_setting(app, rule, command.settings);
  }
  add_path(app, "--plan", command.plan,
           "cut as this plan says, in place of --parts: a list, or the report of 'harmonics plan'");
  CLI::Option* checkpoint = add_path(app, "--checkpoint", command.checkpoint,
                                     "save weights and progress here (safetensors)");
  add_whole(app, "--checkpoint-every", command.checkpoint_every, {0, kMaxEpochs},
            "save every so many steps (0: only at the end)")
      ->needs(checkpoint)
      ->option_text("N");
  add_whole(app, "--checkpoint-every-epochs", command.checkpoint_every_epochs, {0, kMaxEpochs},
            "save every so many epochs (0: only at the end)")
      ->needs(checkpoint)
      ->option_text("N");
  app.add_flag("--keep-checkpoints", command.keeps_checkpoints,
               "keep each of --checkpoint-every as FILE.stepN too, for audits")
      ->option_text(" ")
      ->needs(checkpoint);
  app.add_flag("--resume", command.resume, "go on from the checkpoint, if it exists")
      ->option_text(" ")
      ->needs(checkpoint);
  add_path(app, "--metrics", command.metrics, "append a JSON line per step and epoch to a file");
  add_path(app, "--weights", command.weights,
           "start weights: safetensors, GGUF or a map (those that FILE names)");
  add_bits(app, "--boundary-bits", command.bits.activations, kBitsHelp);
  add_bits(app, "--gradient-bits", command.bits.gradients,
           "the same for gradients; what packing takes is added to the next one");
  add_whole(app, "--restarts", command.restarts, {0, kMaxRestarts},
            "go back to the last checkpoint so often when a process of the run dies (3)");
  add_output(app, command.output);
}

// Combinations that make no sense, and what follows from those that do.
template <typename SomeCommand>
void check_processes(SomeCommand& command, const CLI::Option& restarts, const char* otherwise) {
  if (!command.processes) {
    if (!command.transport.empty() && command.transport != "bus") {
      throw CLI::ValidationError(
          "--transport", format("{} connects processes: add --processes", command.transport));
    }
    if (command.compress) throw CLI::ValidationError("--compress", "needs --processes");
    if constexpr (requires { command.slowdowns; }) {
      if (!command.slowdowns.empty()) {
        throw CLI::ValidationError("--slowdown", "slows down processes: add --processes");
      }
      if (command.elastic) {
        throw CLI::ValidationError("--elastic", "keeps replicas in processes: add --processes");
      }
    }
    if (restarts.count() > 0) {
      throw CLI::ValidationError(
          "--restarts", format("one process cannot start its parts again: add --processes, or "
                               "start it again yourself{}",
                               otherwise));
    }
    return;
  }
  if (command.transport == "bus") {
    throw CLI::ValidationError("--transport",
                               format("a bus connects parts of one process: choose one of {}",
                                      listed(kRemoteTransports, &NamedTransport::name)));
  }
  if (command.transport.empty()) command.transport = "shm";
}

void add_processes(CLI::App& app, bool& processes, std::string& transport, bool& compress) {
  app.add_flag("--processes", processes, "run every part in a process of its own")
      ->option_text(" ");
  add_name(app, "--transport", transport, carriers(),
           "what carries tensors between the parts (bus; with --processes shm)");
  app.add_flag("--compress", compress, "compress tensors between processes")->option_text(" ");
}

double slowdown_from(const std::string& text) {
  const auto factor = number_from<double>(text);
  if (!factor || !(*factor >= 1) || *factor > kMaxSlowdown) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no factor from 1 to {}", text, kMaxSlowdown);
  }
  return *factor;
}

void add_slowdowns(CLI::App& app, std::vector<double>& slowdowns) {
  app.add_option_function<std::vector<std::string>>(
         "--slowdown",
         [&slowdowns](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) slowdowns.push_back(slowdown_from(text));
         },
         "replicas pose as slower machines: how many times as long each of them computes")
      ->type_name("X,X")
      ->delimiter(',')
      ->check(check_by([](const std::string& text) { static_cast<void>(slowdown_from(text)); }));
}

void add_deploy(CLI::App& app, std::string& deploy) {
  add_text(app, "--deploy", deploy, "FILE.yml|BACKEND,...",
           "one part per backend of a file, or of a list such as gpu,fpga,cpu");
}

void add_in_flight(CLI::App& app, std::int64_t& in_flight, const std::string& with) {
  add_whole(app, "--in-flight", in_flight, {0, kMaxStreamInFlight},
            with + "batches under way at once in all parts (0: two for each part)");
}

// Of the flags of a part, those that a language model's has a use for.
void check_generation(const CLI::App& stage, StageCommand& command) {
  static constexpr std::array kUsed = {"--generate",      "--cache-mb",        "--weights",
                                       "--plan",          "--hosts",           "--part",
                                       "--run",           "--token-file",      "--help",
                                       "--threads",       "--tls-certificate", "--tls-key",
                                       "--tls-authority", "--output",          "--backend",
                                       "--deterministic"};
  for (const CLI::Option* const option : stage.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || !name.starts_with("--")) continue;
    if (std::ranges::find(kUsed, name) != kUsed.end()) continue;
    throw CLI::ValidationError(name, "says nothing with --generate: leave it out");
  }
  if (command.training.plan.empty() || command.hosts.empty()) {
    throw CLI::ValidationError("--generate", "needs --plan FILE and --hosts FILE");
  }
  for (const Setting& setting : command.training.settings) {
    if (setting.key != "backend") continue;
    if (setting.value == "fpga") {
      throw CLI::ValidationError("--backend", "a language model is computed by cpu, gpu or auto");
    }
    command.computing.backend = setting.value == "gpu"    ? TextBackend::kGpu
                                : setting.value == "auto" ? TextBackend::kAuto
                                                          : TextBackend::kCpu;
  }
}

// What only says something with --infer, and what says nothing then.
void check_stage(const CLI::App& stage, StageCommand& command) {
  const auto refuse = [&](std::initializer_list<const char*> flags, const char* why) {
    for (const char* flag : flags) {
      if (stage.get_option(flag)->count() > 0) throw CLI::ValidationError(flag, why);
    }
  };
  const SecureMode mode = command.training.secure.mode;
  if (!command.infer && (mode == SecureMode::kZk || mode == SecureMode::kNetwork)) {
    throw CLI::ValidationError("--secure", "zk and network need --infer: training is not proven");
  }
  if (!command.generate) refuse({"--cache-mb", "--deterministic"}, "needs --generate");
  if (command.generate) return check_generation(stage, command);
  if (!command.infer) {
    refuse({"--out", "--in-flight", "--results", "--requests", "--feed", "--delivered", "--kept"},
           "needs --infer");
    return;
  }
  if (!command.requests) refuse({"--feed"}, "needs --requests");
  refuse({"--checkpoint", "--metrics", "--replica", "--replica-place", "--batches-per-epoch",
          "--gradient-bits"},
         "is for training: --infer learns nothing");
  for (const Setting& setting : command.training.settings) {
    if (std::ranges::find(kRunSettings, setting.key) != kRunSettings.end()) continue;
    throw CLI::ValidationError(flag_of(*find_train_setting_rule(setting.key)),
                               "is for training: --infer learns nothing");
  }
}

template <typename SomeCommand>
bool sets(const SomeCommand& command, std::string_view key) {
  return std::ranges::any_of(command.settings,
                             [&](const Setting& setting) { return setting.key == key; });
}

template <typename SomeCommand>
void check_plan(const SomeCommand& command) {
  if (!command.plan.empty() && sets(command, "parts")) {
    throw CLI::ValidationError("--plan", "says how many parts there are: leave out --parts");
  }
}

void check_run(RunCommand& command, const CLI::Option& restarts) {
  const auto given = [&](std::string_view key) { return sets(command, key); };
  check_processes(command, restarts, "");
  check_plan(command);
  if (command.deploy.empty()) return;
  if (command.processes || !command.plan.empty() || given("parts") || given("backend")) {
    throw CLI::ValidationError("--deploy",
                               "says how many parts there are and what computes them, in one "
                               "process: leave out --parts, --backend, --plan and --processes");
  }
}

void add_serving(CLI::App& run, ServeFlags& serve) {
  add_text(run, "--listen", serve.listen, "HOST:PORT",
           "stay up and answer requests over HTTP (Open Inference Protocol)");
  add_text(run, "--listen-grpc", serve.listen_grpc, "HOST:PORT", "the same over gRPC");
  add_whole(run, "--max-wait", serve.max_wait_ms, {0, kMaxServedMs},
            "milliseconds that a request waits for others to share a batch with (2)");
  add_whole(run, "--queue", serve.queue_rows, {0, kMaxQueueRows},
            "rows that may wait; a request beyond is refused with 503 (0: sixteen batches)");
  add_whole(run, "--request-deadline", serve.request_deadline_ms, {1, kMaxServedMs},
            "milliseconds that a request may take (30000)");
  add_path(run, "--token-file", serve.token_file,
           "with --listen: a secret that clients show (or HARMONICS_TOKEN in the environment)");
  add_path(run, "--tls-certificate", serve.tls_certificate, "with --listen: PEM file to show");
  add_path(run, "--tls-key", serve.tls_key, "PEM file of its key");
  add_path(run, "--tls-authority", serve.tls_authority,
           "PEM file to check the certificates of clients by");
}

// What only says something with --listen, and what says nothing then.
void check_serving(const CLI::App& run, const RunCommand& command) {
  const auto refuse = [&](std::initializer_list<const char*> flags, const char* why) {
    for (const char* flag : flags) {
      if (run.get_option(flag)->count() > 0) throw CLI::ValidationError(flag, why);
    }
  };
  if (!command.serve.on()) {
    refuse({"--max-wait", "--queue", "--request-deadline", "--token-file", "--tls-certificate",
            "--tls-key", "--tls-authority"},
           "needs --listen or --listen-grpc");
    return;
  }
  refuse({"--out"}, "is for data: with --listen whoever asks gets the outputs");
  refuse({"--secure", "--trace"}, "is not offered with --listen");
}

}  // namespace

void CommandTree::add_train() {
  CLI::App& train = *root_.add_subcommand("train", "trains a graph on data");
  add_training(train, train_);
  add_processes(train, train_.processes, train_.transport, train_.compress);
  add_slowdowns(train, train_.slowdowns);
  train
      .add_flag("--elastic", train_.elastic,
                "a replica that dies costs a step: the others go on, and it comes back")
      ->option_text(" ");
  add_deploy(train, train_.deploy);
  add_secure(train, train_.secure, SecureUse::kTrains);
  train.footer(example(
      "  harmonics train net.harp --bind 'image=csv:digits.csv?columns=0-63&scale=0.0625' \\\n"
      "    --bind 'label=csv:digits.csv?columns=64' --epochs 30 --test-split 0.2\n"
      "  harmonics train examples/digits.harp --parts 2 --processes --transport tcp\n"
      "  harmonics train examples/digits.harp --plan plan.yml --processes --micro-batches 4\n"
      "  harmonics train examples/digits.harp --parts 2 --secure --proof run.chain\n\n"
      "Flags win over the data and train sections of the file. Ctrl-C finishes the step, "
      "saves and ends with exit code 130."));
  train.callback([this, &train] {
    check_processes(train_, *train.get_option("--restarts"), " with --resume");
    check_plan(train_);
    command_ = train_;
  });
}

void CommandTree::add_stage() {
  CLI::App& stage = *root_.add_subcommand(
      "stage", "trains or runs one part of a graph, the other parts being in other processes");
  add_training(stage, stage_.training);
  add_whole(stage, "--part", stage_.part, {0, kMaxParts}, "which of the --parts, from 0")
      ->required()
      ->option_text("N (required)");
  stage
      .add_flag("--whole-digest", stage_.whole_digest,
                "all parts save into one folder: report the digest of all weights")
      ->option_text(" ")
      ->needs(stage.get_option("--checkpoint"));
  add_texts(stage, "--boundary", stage_.boundaries, "URL",
            "where one boundary meets its other end (repeatable)");
  add_text(stage, "--meet", stage_.meet, "URL", "where all other boundaries meet theirs");
  add_whole(stage, "--replica", stage_.replica, {0, kMaxReplicas},
            "which of the --replicas, from 0; the first one saves");
  add_texts(stage, "--replica-place", stage_.replica_places, "URL",
            "where this part's replicas are reached, one each, in order (repeatable)");
  add_text(stage, "--run", stage_.run, "NAME", "name of the run, the same in all parts");
  add_path(stage, "--token-file", stage_.token_file,
           "a secret that all parts must know (or HARMONICS_TOKEN in the environment)");
  add_path(stage, "--tls-certificate", stage_.tls_certificate, "PEM file of this end");
  add_path(stage, "--tls-key", stage_.tls_key, "PEM file of its key");
  add_path(stage, "--tls-authority", stage_.tls_authority, "PEM file to check the other end by");
  add_whole(stage, "--first-contact", stage_.first_contact_s, {1, kMaxSeconds},
            "seconds to wait for other parts at the start (60)");
  add_whole(stage, "--deadline", stage_.deadline_s, {1, kMaxSeconds},
            "seconds to wait for a tensor of another part (600)");
  add_whole(stage, "--batches-per-epoch", stage_.batches_per_epoch, {0, kMaxBatches},
            "for schedules, where this part has no data of its own");
  add_stage_inference(stage);
  add_stage_generation(stage);
  add_secure(stage, stage_.training.secure, SecureUse::kStages);
  stage.footer(example(
      "  harmonics stage digits.harp --parts 2 --part 0 --meet tcp://gpu-box:9000\n"
      "  harmonics stage digits.harp --parts 2 --part 1 --boundary tcp://gpu-box:9000/drop1@1\n"
      "  harmonics stage vit.harp --infer --plan plan.yml --hosts hosts.yml --part 1 \\\n"
      "    --token-file secret --out prediction=csv:predictions.csv\n"
      "  harmonics stage smollm2 --generate --plan plan.yml --hosts hosts.yml --part 1 \\\n"
      "    --token-file secret\n\n"
      "Settings must be the same in all parts. When another part goes away, this one goes back to "
      "the last checkpoint and waits for it. With --secure every part has a chain of its own; "
      "'harmonics verify' takes them together, and the keys of the others must be in --keys."));
  stage.callback([this, &stage] {
    check_stage(stage, stage_);
    command_ = stage_;
  });
}

void CommandTree::add_stage_inference(CLI::App& stage) {
  stage.add_flag("--infer", stage_.infer, "compute outputs, batch after batch, and learn nothing")
      ->option_text(" ");
  add_bindings(
      stage, "--out", stage_.outputs,
      "with --infer: write a consumer's rows to csv:PATH or PATH.safetensors (repeatable)");
  add_in_flight(stage, stage_.in_flight, "with --infer: ");
  add_path(stage, "--hosts", stage_.hosts,
           "with --plan: lines 'host: address:port', where the parts meet")
      ->needs(stage.get_option("--plan"));
  add_whole(stage, "--copy", stage_.copy, {0, kMaxParts},
            "with --plan: which of the hosts that take turns at this part, from 0")
      ->needs(stage.get_option("--plan"));
  add_text(stage, "--results", stage_.results, "URL",
           "with --infer: where 'harmonics run' takes the outputs of this part");
  stage
      .add_flag("--requests", stage_.requests,
                "with --infer: compute what 'harmonics run --listen' asks for, read no data")
      ->option_text(" ");
  add_text(stage, "--feed", stage_.feed, "URL",
           "with --requests: where 'harmonics run --listen' gives them to this part");
  add_whole(stage, "--delivered", stage_.delivered, {0, kMaxBatches},
            "with --infer: batches whose outputs are there already");
  add_folder(stage, "--kept", stage_.kept,
             "with --infer --out: keep rows there as they come, behind those of --delivered");
}

void CommandTree::add_run() {
  CLI::App& run = *root_.add_subcommand("run", "computes the outputs of a trained graph");
  add_model_file(run, run_.file);
  add_path(run, "--weights", run_.weights,
           "weights: a checkpoint, safetensors, GGUF or a map (those that FILE names)");
  add_bindings(run, "--bind", run_.bindings, "data of a producer (repeatable)");
  add_axes(run, run_.axes, "one length for a named axis in all batches (repeatable)");
  add_bindings(run, "--out", run_.outputs,
               "write a consumer's rows to csv:PATH or PATH.safetensors (repeatable)");
  for (const char* key : kRunSettings) {
    add_setting(run, *find_train_setting_rule(key), run_.settings);
  }
  add_path(run, "--plan", run_.plan,
           "cut as this plan says: a list, or the report of 'harmonics plan --output json'");
  add_deploy(run, run_.deploy);
  add_processes(run, run_.processes, run_.transport, run_.compress);
  add_bits(run, "--boundary-bits", run_.bits.activations, kBitsHelp);
  add_whole(run, "--restarts", run_.restarts, {0, kMaxRestarts},
            "start all parts again so often when a process dies or hangs (3)");
  add_whole(run, "--deadline", run_.deadline_s, {1, kMaxSeconds},
            "seconds to wait for a tensor of another part (600)");
  add_in_flight(run, run_.in_flight, "");
  add_path(run, "--trace", run_.trace,
           "keep when each part worked on what in this folder, for 'harmonics trace'");
  add_secure(run, run_.secure, SecureUse::kRuns);
  add_serving(run, run_.serve);
  add_output(run, run_.output);
  run.footer(example(
      "  harmonics run examples/digits.harp --weights digits.safetensors \\\n"
      "    --out prediction=csv:predictions.csv\n"
      "  harmonics run vit.harp --plan plan.yml --processes --transport tcp\n"
      "  harmonics run vit.harp --weights vit.safetensors --batch-size 8 --listen "
      "localhost:8000\n\n"
      "Data and weights that the file names need not be given again. With targets bound, loss and "
      "accuracy are printed. Several parts work on several batches at the same time; a table says "
      "how much of its time each computed and waited."));
  run.callback([this, &run] {
    check_run(run_, *run.get_option("--restarts"));
    check_serving(run, run_);
    command_ = run_;
  });
}

}  // namespace harmonics::inline in_options
