#include "options.h"

#include <algorithm>
#include <sstream>

#include <harmonics/arguments/option_kinds.h>
#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_sched_pipeline {
namespace {

constexpr const char* kGenerationFlags[] = {"--context", "--sequences", "--prompt", "--chunk",
                                            "--explain"};

// Declares the options of one command line over the values that they set.
class OptionTable {
 public:
  OptionTable()
      : app_(
            "Plans which host runs which layers of a model, and proves how good the plan "
            "is. The plan goes to standard output.",
            "sched-pipeline") {
    app_.set_version_flag("--version", "sched-pipeline " HARMONICS_VERSION);
    app_.get_formatter()->column_width(38);
    // As getopt does; lists take all.
    app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app_.footer(
        "\nExample:\n  sched-pipeline -m google/vit-base-patch16-224 --report text --svg "
        "plan.svg\n"
        "  sched-pipeline --pipelines auto --report text\n"
        "  sched-pipeline --dag operators.json --overlap none --report text\n"
        "\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 no feasible plan.");
    add_inputs();
    add_aims();
    add_rules();
    add_outputs();
    add_operators();
    add_flow();
    add_generation();
    add_training();
    app_.callback([this] {
      refuse_beside("--dag", {"--flow", "--pipelines", "--front", "--deadline"});
      refuse_beside("--flow",
                    {"--dag", "--split", "--overlap", "--pipelines", "--front", "--deadline"});
      settle_training();
      refuse_pipelines();
      settle_aim();
    });
  }

  std::variant<ScheduleOptions, UsageAnswer> parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      std::ostringstream out;
      std::ostringstream mistakes;
      if (app_.exit(error, out, mistakes) == 0) return UsageAnswer{kExitDone, out.str()};
      return wrong_usage("sched-pipeline", describe(error), "sched-pipeline");
    }
    return options_;
  }

 private:
  std::string describe(const CLI::ParseError& error) const {
    // What is left over comes last first.
    const std::vector<std::string> rest = app_.remaining();
    const auto flag = std::find_if(rest.rbegin(), rest.rend(),
                                   [](const std::string& word) { return word.starts_with('-'); });
    if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || rest.empty()) {
      return error.what();
    }
    if (flag == rest.rend()) return format("takes no argument '{}'", rest.back());
    return has_no_flag(app_, flag->substr(0, flag->find('=')));
  }

  /// Of a choice that is there twice the last counts, so it is checked alone.
  static void last_counts(CLI::Option* choice) { choice->get_validator(0)->application_index(0); }

  void add_inputs() {
    app_.add_option_function<std::string>(
            "-d,--dtype",
            [this](const std::string& text) {
              options_.freedom.dtype = text == "auto";
              if (text != "auto") options_.request.dtype = text;
            },
            "data type, or 'auto' for the best measured one (torch.float32)")
        ->type_name("DTYPE");
    app_.add_option_function<std::string>(
            "-b,--batch-size",
            [this](const std::string& text) {
              options_.freedom.batch_size = text == "auto";
              if (text != "auto") options_.request.batch_size = batch_size(text);
            },
            "micro-batch size, or 'auto' for most samples per second (8)")
        ->type_name("N");
    const CLI::Range buffers(0, 1'000'000);
    app_.add_option("-i,--buffers-in", options_.planner.costs.buffers_in,
                    "receive buffers per stage (2)")
        ->check(CLI::Validator(buffers).description(""))
        ->type_name("N");
    app_.add_option("-o,--buffers-out", options_.planner.costs.buffers_out,
                    "send buffers per stage (2)")
        ->check(CLI::Validator(buffers).description(""))
        ->type_name("N");
    app_.add_option("-m,--model-name", options_.request.model,
                    "model in the models file (google/vit-base-patch16-224)")
        ->type_name("NAME");
    add_path(app_, "-M,--models-file", options_.files.models, "models (models.yml)");
    add_path(app_, "-T,--dev-types-file", options_.files.types, "device types (device_types.yml)");
    add_path(app_, "-D,--dev-file", options_.files.hosts, "hosts by device type (devices.yml)");
    add_path(app_, "--links-file", options_.files.links, "bandwidth of single links (optional)");
  }

  static std::int64_t batch_size(const std::string& text) {
    const auto value = number_from<std::int64_t>(text);
    if (!value || *value < 1 || *value > kMaxPlannedBatch) {
      throw CLI::ValidationError(
          "--batch-size", format("'{}' is neither 'auto' nor in 1..{}", text, kMaxPlannedBatch));
    }
    return *value;
  }

  void add_aims() {
    PlannerOptions& planner = options_.planner;
    last_counts(add_choice(app_, "--goal", goal_,
                           {{"throughput", PlanAim::kPeriod},
                            {"latency", PlanAim::kLatency},
                            {"cost", PlanAim::kCost},
                            {"energy", PlanAim::kEnergy},
                            {"tokens", GenerationGoal::kTokens},
                            {"first-token", GenerationGoal::kFirstToken},
                            {"both", GenerationGoal::kBoth}},
                           "what to make best, cost and energy of a sample; of texts: tokens a "
                           "second, the first token, or both (throughput)"));
    app_.add_option("--deadline", options_.deadline_s,
                    "seconds that a micro-batch may take from end to end (any)")
        ->check(CLI::Validator(CLI::PositiveNumber).description(""))
        ->type_name("S");
    app_.add_flag("--front", options_.front,
                  "the plans of which none is better in period, latency, hosts, cost and energy, "
                  "as a table; --svg draws them");
    last_counts(add_choice(app_, "--then", planner.preference,
                           {{"latency", PlanPreference::kLatency},
                            {"hosts", PlanPreference::kFewestHosts},
                            {"none", PlanPreference::kNone}},
                           "what decides between equally fast plans (latency)"));
    app_.add_option("--tolerance", planner.tolerance,
                    "share by which --then may slow the plan down (0)")
        ->check(CLI::Validator(CLI::Range(0.0, 10.0)).description(""))
        ->type_name("SHARE");
    last_counts(add_choice(app_, "--overlap", planner.costs.overlap,
                           {{"full", Overlap::kFull}, {"none", Overlap::kNone}},
                           "do compute and transfers overlap? (full)"));
    app_.add_flag("--replicate", planner.replicate,
                  "let stages run on several hosts of a type, which take turns");
    last_counts(add_choice(app_, "--pipelines", options_.pipelines,
                           {{"one", PipelineWish::kOne},
                            {"auto", PipelineWish::kAuto},
                            {"runnable", PipelineWish::kRunnable}},
                           "several at once, hosts of any types in turns and routes that split, or "
                           "of these what programs run (one)"));
    app_.add_option("--work", planner.work, "limit of the search in steps of work (0: default)")
        ->type_name("STEPS");
  }

  void add_rules() {
    app_.add_option_function<std::vector<std::string>>(
            "--pin",
            [this](const std::vector<std::string>& texts) {
              for (const std::string& text : texts) {
                try {
                  options_.request.pins.push_back(parse_layer_pin(text));
                } catch (const Error& error) {
                  throw CLI::ValidationError("--pin", error.what());
                }
              }
            },
            "layers that must run on a host or type (repeatable)")
        ->type_name("FIRST[-LAST]=WHERE")
        ->allow_extra_args(false);
    app_.add_option("--host-order", options_.request.host_order,
                    "stages run on these hosts in this order, some may stay idle")
        ->type_name("HOST,...")
        ->delimiter(',')
        ->allow_extra_args(false);
    app_.add_option("--exclude", options_.request.excluded_hosts, "hosts to leave out (repeatable)")
        ->type_name("HOST,...")
        ->delimiter(',')
        ->allow_extra_args(false);
    CLI::Option* current = add_path(app_, "--current", options_.current_plan,
                                    "the plan in force: plan anew, counting what must be moved");
    app_.add_option("--migration-cost", options_.migration.seconds_per_mb,
                    "seconds to move a megabyte of layers (0.01)")
        ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
        ->type_name("S/MB")
        ->needs(current);
    app_.add_option("--horizon", options_.migration.horizon_batches,
                    "micro-batches that the new plan will serve (10000)")
        ->check(CLI::Validator(CLI::PositiveNumber).description(""))
        ->type_name("N")
        ->needs(current);
  }

  void add_outputs() {
    app_.add_flag("--fallbacks", options_.fallbacks,
                  "also plan for the loss of one host of each type (in the report)");
    last_counts(
        add_choice(app_, "--report", options_.report,
                   {{"text", ReportStyle::kText}, {"json", ReportStyle::kJson}},
                   "report on standard error (JSON: and nothing else), or to --report-file"));
    add_path(app_, "--report-file", options_.report_file,
             "write the report here (text unless --report)");
    add_path(app_, "--svg", options_.svg_file, "draw the pipeline as a time line");
    app_.add_option_function<std::vector<std::string>>(
            "--diff",
            [this](const std::vector<std::string>& paths) {
              options_.compared_plans.assign(paths.begin(), paths.end());
            },
            "compare two plans and stop")
        ->type_name("BEFORE AFTER")
        ->expected(2);
  }

  void add_operators() {
    CLI::Option* graph = add_path(app_, "--dag", options_.operator_graph,
                                  "plan for an operator graph with its devices, not for a chain");
    CLI::Option* split =
        add_choice(app_, "--split", options_.split,
                   {{"contiguous", OperatorSplit::kContiguous}, {"free", OperatorSplit::kFree}},
                   "one part of the graph for each host, or any operators (contiguous)");
    last_counts(split);
    split->needs(graph);
  }

  void add_flow() {
    add_path(app_, "--flow", options_.flow_problem,
             "plan a flow over several routes for a problem that Helix wrote (.lp)");
  }

  // What is said of layers, of a chain's second aims and of hosts in other files has no meaning for
  // a file that holds its own devices.
  void refuse_beside(const std::string& flag, std::vector<std::string> others) {
    if (app_.get_option(flag)->count() == 0) return;
    for (const char* other :
         {"--model-name",  "--dtype",          "--batch-size", "--buffers-in", "--buffers-out",
          "--models-file", "--dev-types-file", "--dev-file",   "--links-file", "--goal",
          "--then",        "--tolerance",      "--replicate",  "--pin",        "--host-order",
          "--exclude",     "--current",        "--diff",       "--fallbacks",  "--svg"}) {
      others.emplace_back(other);
    }
    for (const std::string& other : others) {
      if (app_.get_option(other)->count() == 0) continue;
      throw CLI::ValidationError(flag, format("and {} do not go together", other));
    }
  }

  void refuse_pipelines() {
    if (options_.pipelines == PipelineWish::kOne) return;
    for (const char* other :
         {"--goal", "--then", "--tolerance", "--replicate", "--overlap", "--host-order",
          "--current", "--fallbacks", "--svg", "--front", "--deadline"}) {
      if (app_.get_option(other)->count() == 0) continue;
      throw CLI::ValidationError("--pipelines", format("and {} do not go together", other));
    }
    if (options_.freedom.batch_size || options_.freedom.dtype) {
      throw CLI::ValidationError("--pipelines", "needs a batch size and a dtype, not 'auto'");
    }
  }

  void settle_generation(GenerationGoal goal) {
    const std::string flag = format("--goal {}", generation_goal_name(goal));
    for (const char* other : {"--dtype", "--batch-size", "--then", "--overlap", "--replicate",
                              "--front", "--deadline", "--current", "--fallbacks", "--svg"}) {
      if (app_.get_option(other)->count() == 0) continue;
      throw CLI::ValidationError(flag, format("and {} do not go together", other));
    }
    const bool share = app_.get_option("--tolerance")->count() > 0;
    if (share && goal != GenerationGoal::kBoth) {
      throw CLI::ValidationError("--tolerance", "of texts needs --goal both");
    }
    const CostOptions& costs = options_.planner.costs;
    GenerationOptions made{.goal = goal,
                           .buffers_in = costs.buffers_in,
                           .buffers_out = costs.buffers_out,
                           .work = options_.planner.work};
    if (share) made.tolerance = options_.planner.tolerance;
    options_.generation = made;
    options_.wish.hosts = options_.request;
  }

  void add_generation() {
    add_whole(app_, "--context", options_.wish.context, {1, kMaxPlannedContext},
              "goals of texts: tokens of a sequence, prompt and answer (2048)");
    add_whole(app_, "--sequences", options_.wish.sequences, {1, kMaxPlannedSequences},
              "goals of texts: sequences at the same time (16)");
    add_whole(app_, "--prompt", options_.wish.prompt, {1, kMaxPlannedContext},
              "goals of texts: tokens of the prompt (half of --context)");
    add_whole(app_, "--chunk", options_.wish.chunk, {1, kMaxPlannedContext},
              "goals of texts: tokens of a prompt in a step (128)");
    app_.add_flag("--explain", options_.explain,
                  "goals of texts: say in the report what binds, and what other numbers of "
                  "sequences would do");
  }

  void add_training() {
    last_counts(add_choice(app_, "--pipeline", options_.training.order,
                           {{"sequential", PipelineOrder::Sequential},
                            {"1f1b", PipelineOrder::OneForwardOneBackward},
                            {"gpipe", PipelineOrder::GPipe}},
                           "training: the order of the micro-batches for which the report tells "
                           "time and memory (1f1b)"));
    add_whole(app_, "--micro-batches", micro_batches_, {1, kMaxPlannedMicroBatches},
              "training: micro-batches of a batch (4)");
  }

  void settle_training() {
    options_.training.micro_batches = static_cast<std::uint32_t>(micro_batches_);
    options_.asks_training = app_.get_option("--pipeline")->count() > 0;
    if (!options_.asks_training) return;
    for (const char* other : {"--dag", "--flow", "--pipelines", "--front", "--deadline"}) {
      if (app_.get_option(other)->count() == 0) continue;
      throw CLI::ValidationError("--pipeline", format("and {} do not go together", other));
    }
  }

  // The planner itself knows two goals; the others, and deadlines, are looked for around it.
  void settle_aim() {
    if (const auto* goal = std::get_if<GenerationGoal>(&goal_)) return settle_generation(*goal);
    for (const char* flag : kGenerationFlags) {
      if (app_.get_option(flag)->count() == 0) continue;
      throw CLI::ValidationError(flag, "needs --goal tokens, first-token or both");
    }
    const PlanAim aim = std::get<PlanAim>(goal_);
    options_.planner.goal = aim == PlanAim::kLatency ? PlanGoal::kLatency : PlanGoal::kThroughput;
    const bool plain = aim == PlanAim::kPeriod || aim == PlanAim::kLatency;
    const bool deadline = app_.get_option("--deadline")->count() > 0;
    if (plain && !deadline && !options_.front) return;
    const std::string flag = options_.front ? "--front"
                             : deadline     ? "--deadline"
                                            : "--goal cost and energy";
    for (const char* other : {"--then", "--tolerance", "--current", "--fallbacks"}) {
      if (app_.get_option(other)->count() == 0) continue;
      throw CLI::ValidationError(flag, format("and {} do not go together", other));
    }
    if (options_.front && app_.get_option("--goal")->count() > 0) {
      throw CLI::ValidationError("--front", "shows the plans of all goals: leave out --goal");
    }
    if (options_.freedom.batch_size || options_.freedom.dtype) {
      throw CLI::ValidationError(flag, "needs a batch size and a dtype, not 'auto'");
    }
    if (!options_.front) options_.aim = aim;
  }

  CLI::App app_;
  std::variant<PlanAim, GenerationGoal> goal_ = PlanAim::kPeriod;
  std::int64_t micro_batches_ = 4;
  ScheduleOptions options_;
};

}  // namespace

std::variant<ScheduleOptions, UsageAnswer> parse_schedule_options(int argc,
                                                                  const char* const* argv) {
  return OptionTable().parse(argc, argv);
}

}  // namespace harmonics::inline in_sched_pipeline
