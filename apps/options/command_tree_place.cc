// harmonics profile and harmonics plan.
#include <cmath>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/place/profile.h>
#include <harmonics/place/profile_bandwidth.h>
#include <harmonics/plan/boundary_bits.h>
#include <harmonics/plan/generation.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/plan/training.h>

#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

constexpr std::int64_t kMaxThreads = 4096;
constexpr std::int64_t kMaxDevices = 1024;
constexpr std::int64_t kMaxBuffers = 1'000'000;
/// Batch sizes and dtypes of one call.
constexpr std::size_t kMaxProfileChoices = 64;
constexpr const char* kDtypes = "torch.float32|torch.bfloat16|torch.float16";
constexpr const char* kAuto = "auto";

double positive_number(const std::string& text) {
  const auto value = number_from<double>(text);
  if (!value || !std::isfinite(*value) || *value <= 0) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not a number above 0", text);
  }
  return *value;
}

void add_positive(CLI::App& app, const std::string& name, double& value, const std::string& help) {
  app.add_option_function<std::string>(
         name, [&value](const std::string& text) { value = positive_number(text); }, help)
      ->type_name("N")
      ->check(check_by([](const std::string& text) { static_cast<void>(positive_number(text)); }));
}

// "a,b,c" read piece by piece; the same twice is wrong.
template <typename Value, typename Read>
std::vector<Value> read_list(const std::string& text, Read read) {
  if (text.ends_with(',')) fail(ErrorCode::kInvalidArgument, "'{}' ends with a comma", text);
  std::vector<Value> values;
  for (const std::string& piece : CLI::detail::split(text, ',')) {
    Value value = read(piece);
    if (std::ranges::find(values, value) != values.end()) {
      fail(ErrorCode::kInvalidArgument, "'{}' is there twice", piece);
    }
    values.push_back(std::move(value));
  }
  if (values.size() > kMaxProfileChoices) {
    fail(ErrorCode::kInvalidArgument, "{} values, at most {} are possible", values.size(),
         kMaxProfileChoices);
  }
  return values;
}

template <typename Value, typename Read>
void add_list(CLI::App& app, const std::string& name, std::vector<Value>& values, Read read,
              const std::string& help) {
  app.add_option_function<std::string>(
         name, [&values, read](const std::string& text) { values = read_list<Value>(text, read); },
         help)
      ->check(check_by(
          [read](const std::string& text) { static_cast<void>(read_list<Value>(text, read)); }));
}

std::string measured_dtype(const std::string& text) {
  const std::string problem = check_choice(kDtypes)(text);
  if (!problem.empty()) fail(ErrorCode::kInvalidArgument, "{}", problem);
  return text;
}

CLI::Option* add_graph_argument(CLI::App& app, std::filesystem::path& graph) {
  return add_path(app, "GRAPH", graph, "a graph in .harp text, or a name of 'harmonics graph zoo'");
}

void add_planned_files(CLI::App& plan, PlanCommand& p) {
  add_path(plan, "--models-file", p.models_file, "layers of each model (models.yml)");
  add_path(plan, "--dev-types-file", p.types_file, "times of each device type (device_types.yml)");
  add_path(plan, "--dev-file", p.hosts_file, "hosts of each device type (devices.yml)");
  add_path(plan, "--links-file", p.links_file, "bandwidths between hosts (none)");
}

void add_planned_bits(CLI::App& plan, PlanCommand& p) {
  plan.add_option_function<std::string>(
          "--boundary-bits",
          [&p](const std::string& text) { p.boundary_bits = parse_boundary_bits(text); },
          "bits of what crosses from host to host; auto: as few as help, within the tolerance (32)")
      ->type_name("auto|32|16|8|4")
      ->check(check_by([](const std::string& text) { (void)parse_boundary_bits(text); }));
  const auto share = [](const std::string& text) {
    const auto value = number_from<double>(text);
    if (!value || !(*value >= 0 && *value <= 1)) {
      fail(ErrorCode::kInvalidArgument, "'{}' is no share from 0 to 1", text);
    }
    return *value;
  };
  plan.add_option_function<std::string>(
          "--boundary-tolerance",
          [&p, share](const std::string& text) { p.boundary_tolerance = share(text); },
          "with --boundary-bits auto: how far off a value may be, of its row's largest (0.005)")
      ->type_name("SHARE")
      ->check(check_by([share](const std::string& text) { (void)share(text); }));
}

void add_planned_aims(CLI::App& plan, PlanCommand& p) {
  add_name(plan, "--goal", p.goal, "throughput|latency|cost|energy|tokens|first-token|both",
           "what to make best, cost and energy of a sample; of texts: tokens a second, the first "
           "token, or both (throughput)");
  add_positive(plan, "--deadline", p.deadline_s,
               "seconds that a micro-batch may take from end to end (any)");
  plan.get_option("--deadline")->option_text("S");
  plan.add_flag("--front", p.front,
                "the plans of which none is better in period, latency, hosts, cost and energy")
      ->option_text(" ");
  add_path(plan, "--svg", p.svg_file, "with --front: draw them");
  plan.add_flag("--replicate", p.replicate,
                "let stages run on several hosts of a type, which take turns")
      ->option_text(" ");
  add_name(plan, "--pipelines", p.pipelines, "one|auto|runnable",
           "several at once, hosts of any types in turns and routes that split, or of these what "
           "programs run (one)");
}

void add_planned_training(CLI::App& plan, PlanCommand& p) {
  add_name(plan, "--pipeline", p.pipeline, "sequential|1f1b|gpipe",
           "training: the order of the micro-batches for which time and memory are told (1f1b)");
  add_whole(plan, "--micro-batches", p.micro_batches, {1, kMaxPlannedMicroBatches},
            "training: micro-batches of a batch (4)");
}

constexpr const char* kGenerationFlags[] = {"--context", "--sequences", "--prompt", "--chunk",
                                            "--explain"};

void add_planned_generation(CLI::App& plan, PlanCommand& p) {
  add_whole(plan, "--context", p.context, {1, kMaxPlannedContext},
            "goals of texts: tokens of a sequence, prompt and answer (2048)");
  add_whole(plan, "--sequences", p.sequences, {1, kMaxPlannedSequences},
            "goals of texts: sequences at the same time (16)");
  add_whole(plan, "--prompt", p.prompt, {1, kMaxPlannedContext},
            "goals of texts: tokens of the prompt (half of --context)");
  add_whole(plan, "--chunk", p.chunk, {1, kMaxPlannedContext},
            "goals of texts: tokens of a prompt in a step (128)");
  plan.add_flag("--explain", p.explain,
                "goals of texts: say what binds, and what other numbers of sequences would do")
      ->option_text(" ");
}

bool is_given(const CLI::App& app, const char* flag) { return app.get_option(flag)->count() > 0; }

void check_planned_generation(const CLI::App& plan, const PlanCommand& p) {
  if (!p.generates()) {
    for (const char* flag : kGenerationFlags) {
      if (!is_given(plan, flag)) continue;
      throw CLI::ValidationError(flag, "needs --goal tokens, first-token or both");
    }
    return;
  }
  for (const char* other :
       {"--dtype", "--batch-size", "--deadline", "--front", "--svg", "--replicate", "--pipelines",
        "--boundary-bits", "--boundary-tolerance", "--dag", "--out-dir", "--check", "--axis",
        "--pipeline", "--micro-batches"}) {
    if (!is_given(plan, other)) continue;
    throw CLI::ValidationError("--goal " + p.goal, format("and {} do not go together", other));
  }
  if (p.goal != "both" && is_given(plan, "--tolerance")) {
    throw CLI::ValidationError("--tolerance", "needs --goal both, or --check");
  }
}

// A graph to plan, or runs to check.
void check_planned_runs(const CLI::App& plan, const PlanCommand& p) {
  if (p.graph.empty() == p.checks.empty()) {
    if (p.checks.empty()) throw CLI::RequiredError("GRAPH");
    throw CLI::ValidationError("--check", "looks at a run: leave out GRAPH");
  }
  if (p.checks.empty() && !p.generates() && is_given(plan, "--tolerance")) {
    throw CLI::ValidationError("--tolerance", "needs --check, or --goal both");
  }
  check_planned_generation(plan, p);
}

// What cannot be asked for together.
void check_planned_aims(const CLI::App& plan, const PlanCommand& p) {
  const bool aims = is_given(plan, "--deadline") || p.goal == "cost" || p.goal == "energy";
  const bool several = p.pipelines != "one";
  const std::string flag = several ? "--pipelines" : p.front ? "--front" : "--deadline";
  if (is_given(plan, "--svg") && !p.front) throw CLI::ValidationError("--svg", "needs --front");
  if (!aims && !several && !p.front) return;
  std::vector<const char*> others = {"--boundary-bits", "--dag"};
  if (several) {
    others.insert(others.end(), {"--goal", "--deadline", "--front", "--replicate", "--pipeline"});
  }
  if (p.front) others.insert(others.end(), {"--goal", "--out-dir", "--pipeline"});
  for (const char* other : others) {
    if (!is_given(plan, other)) continue;
    throw CLI::ValidationError(flag, format("and {} do not go together", other));
  }
}

void add_profiled_generation(CLI::App& profile, ProfileCommand& p) {
  add_path(profile, "--weights", p.weights,
           "generation: weights of a .harp file, in place of what it names");
  add_list(
      profile, "--sequences", p.sequences,
      [](const std::string& text) { return whole_number(text, 1, kMaxPlannedSequences); },
      "generation: numbers of sequences that decode at once (1,4,16)");
  profile.get_option("--sequences")->type_name("N[,N...]");
  add_whole(profile, "--context", p.context, {1, kMaxPlannedContext},
            "generation: tokens that they hold (512)");
  add_whole(profile, "--chunk", p.chunk, {1, kMaxPlannedContext},
            "generation: tokens of a prompt in a step (128)");
}

void add_profiled_passes(CLI::App& profile, ProfileCommand& p) {
  add_whole(profile, "--warmup", p.warmup, {0, kMaxProfileRepeats},
            "passes before the first one that counts (2)");
  add_whole(profile, "--repeats", p.repeats, {1, kMaxProfileRepeats},
            "passes of which the median counts (5)");
  add_whole(profile, "--threads", p.threads, {0, kMaxThreads},
            "threads inside one operation (0: libtorch's choice)");
}

// What has no meaning for the mode.
void check_profiled_mode(const CLI::App& profile, const ProfileCommand& p) {
  const bool generates = p.mode == ProfiledMode::kGeneration;
  const std::vector<const char*> others =
      generates ? std::vector{"--backend", "--device",    "--batch-size", "--dtype",
                              "--axis",    "--optimizer", "--in-flight",  "--results-file"}
                : std::vector{"--weights", "--sequences", "--context", "--chunk"};
  for (const char* other : others) {
    if (!is_given(profile, other)) continue;
    throw CLI::ValidationError(
        other, generates ? "has no meaning with --mode generation" : "needs --mode generation");
  }
}

}  // namespace

void CommandTree::add_profile() {
  CLI::App& profile =
      *root_.add_subcommand("profile", "measures the layers of a graph on this machine");
  ProfileCommand& p = profile_;
  CLI::Option* graph = add_graph_argument(profile, p.graph);
  graph->option_text("(required)");
  add_axes(profile, p.axes,
           "the length of a named axis that is measured (its ceiling; repeatable)");
  add_choice(profile, "--backend", p.backend, "cpu|gpu|fpga", "what computes (cpu)");
  add_whole(profile, "--device", p.device_index, {0, kMaxDevices - 1}, "which GPU (0)");
  add_list(
      profile, "--batch-size", p.batch_sizes,
      [](const std::string& text) { return whole_number(text, 1, kMaxProfileBatch); },
      "samples of a micro-batch, or several: 1,8,32 (8)");
  profile.get_option("--batch-size")->type_name("N[,N...]");
  add_list(profile, "--dtype", p.dtypes, measured_dtype, "or several: a,b (torch.float32)");
  profile.get_option("--dtype")->type_name(kDtypes);
  add_choice(profile, "--mode", p.mode, "inference|training|generation",
             "the forward pass, or backward too; or a language model that makes texts (inference)");
  add_profiled_generation(profile, p);
  add_choice(profile, "--optimizer", p.optimizer, "sgd|adam|adamw",
             "training: whose state counts as memory; sgd with momentum (adam)");
  add_whole(profile, "--in-flight", p.in_flight, {1, kMaxInFlight},
            "training: micro-batches whose activations count as memory (4)");
  add_profiled_passes(profile, p);
  add_profile_files(profile);
  const auto host_port = check_by([](const std::string& t) { (void)parse_host_port(t); });
  CLI::Option* peer = add_text(profile, "--peer", p.peer, "HOST:PORT",
                               "measure the bandwidth to a machine that serves");
  peer->check(check_by([](const std::string& text) {
    if (parse_host_port(text).host.empty()) {
      fail(ErrorCode::kInvalidArgument, "'{}' is not of the form HOST:PORT", text);
    }
  }));
  peer->excludes(profile.get_option("--bw-mbps"))->option_text("HOST:PORT");
  add_text(profile, "--serve", p.serve, "[ADDRESS:]PORT",
           "answer --peer of other machines until Ctrl-C, measure nothing")
      ->check(host_port)
      ->excludes(graph)
      ->option_text("[ADDRESS:]PORT");
  add_output(profile, p.output);
  profile.footer(
      example("  harmonics profile vit-base --batch-size 8 --bw-mbps 1000\n"
              "  harmonics profile --from-run run.json\n"
              "  harmonics profile smollm2 --mode generation --context 1024\n"
              "  harmonics profile net.harp --mode training --batch-size 1,8 --type laptop\n\n"
              "Adds to models.yml and device_types.yml, which 'harmonics plan' and sched-pipeline "
              "read."));
  profile.callback([this, &profile] {
    const bool measures = profile_.serve.empty() && profile_.runs.empty();
    if (profile_.graph.empty() && measures) throw CLI::RequiredError("GRAPH");
    if (!profile_.graph.empty() && !profile_.runs.empty()) {
      throw CLI::ValidationError("--from-run", "measures nothing anew: leave out GRAPH");
    }
    check_profiled_mode(profile, profile_);
    command_ = profile_;
  });
}

void CommandTree::add_profile_files(CLI::App& profile) {
  ProfileCommand& p = profile_;
  add_positive(profile, "--mem-mb", p.memory_mb,
               "memory that the planner may use here (what is free)");
  add_positive(profile, "--bw-mbps", p.bandwidth_mbps,
               "network bandwidth (the one on file, else the interface's)");
  profile.get_option("--bw-mbps")->option_text("N");
  add_text(profile, "--type", p.type, "NAME", "device type (the processor's or card's name)");
  add_text(profile, "--model-name", p.model, "NAME", "model name in the files (the graph's)");
  add_path(profile, "--models-file", p.models_file, "layers of each model (models.yml)");
  add_path(profile, "--dev-types-file", p.types_file,
           "times of each device type (device_types.yml)");
  add_path(profile, "--results-file", p.results_file,
           "every shape and time of this run (profiler_results.yml)");
  add_texts(profile, "--from-run", p.runs, "FILE",
            "correct the files by what a planned run measured: the report of 'harmonics run "
            "--output json', or those of all stages (repeatable)");
  add_path(profile, "--dev-file", p.hosts_file,
           "with --from-run: hosts of each device type (devices.yml)");
  add_path(profile, "--links-file", p.links_file,
           "with --from-run: bandwidths and latencies between hosts, made if missing (links.yml)");
}

void CommandTree::add_plan() {
  CLI::App& plan = *root_.add_subcommand("plan", "places the layers of a graph on machines");
  PlanCommand& p = plan_;
  add_graph_argument(plan, p.graph)->option_text("(required)");
  add_axes(plan, p.axes, "the length of a named axis for which to cut (its ceiling; repeatable)");
  add_text(plan, "--model-name", p.model, "NAME", "model name in the files (the graph's)");
  add_text(plan, "--dtype", p.dtype,
           "torch.float32|torch.bfloat16|torch.float16|torch.float64|torch.int8",
           "which measurement counts (torch.float32)")
      ->check(check_by([](const std::string& text) { (void)plan_dtype_bytes(text); }));
  const auto batch = [](const std::string& text) {
    return text == kAuto ? 0 : whole_number(text, 1, kMaxPlannedBatch);
  };
  plan.add_option_function<std::string>(
          "--batch-size", [&p, batch](const std::string& text) { p.batch_size = batch(text); },
          "micro-batch that was measured, or auto: the best one (8 if it was measured, else auto)")
      ->type_name("N")
      ->check(check_by([batch](const std::string& text) { (void)batch(text); }));
  add_whole(plan, "--buffers-in", p.buffers_in, {0, kMaxBuffers}, "receive buffers (2)");
  add_whole(plan, "--buffers-out", p.buffers_out, {0, kMaxBuffers}, "send buffers (2)");
  add_planned_aims(plan, p);
  add_planned_training(plan, p);
  add_planned_generation(plan, p);
  add_planned_bits(plan, p);
  add_list(
      plan, "--exclude", p.excluded_hosts, [](const std::string& text) { return text; },
      "hosts that are not to be used: a,b");
  plan.get_option("--exclude")->type_name("HOST[,HOST...]");
  add_planned_files(plan, p);
  add_folder(plan, "--out-dir", p.out_dir, "write the plan and each host's part as .harp there");
  add_path(plan, "--dag", p.dag_file,
           "write the graph with its branches there, for 'sched-pipeline --dag'");
  add_texts(plan, "--check", p.checks, "FILE",
            "compare a plan with its run: the report of 'harmonics run --output json', or those of "
            "all stages (repeatable)");
  add_positive(plan, "--tolerance", p.tolerance,
               "with --check: the share by which a run may differ; with --goal both: of tokens a "
               "second that may be lost (0.1)");
  add_output(plan, p.output);
  plan.footer(example(
      "  harmonics plan vit-base --dev-file devices.yml --out-dir parts\n"
      "  harmonics plan vit-base --front --svg front.svg\n"
      "  harmonics plan vit-base --pipelines auto\n"
      "  harmonics plan smollm2 --goal tokens --context 2048 --sequences 8 --explain\n"
      "  harmonics plan --check run.json\n\n"
      "Exit code 3: there is no plan; the message says which limit is to blame. Exit code 4: "
      "with --check, the run's period is further from the plan's than the tolerance."));
  plan.callback([this, &plan] {
    check_planned_runs(plan, plan_);
    if (plan.get_option("--boundary-tolerance")->count() > 0 && plan_.boundary_bits != 0) {
      throw CLI::ValidationError("--boundary-tolerance", "needs --boundary-bits auto");
    }
    check_planned_aims(plan, plan_);
    command_ = plan_;
  });
}

}  // namespace harmonics::inline in_options
