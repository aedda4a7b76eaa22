// harmonics sim.
#include <harmonics/base/number_text.h>
#include <harmonics/cluster/policy.h>

#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

/// A number from `low` to `high`, or the word that stands for `means`.
struct NumberOrWord {
  double low = 0;
  double high = 0;
  const char* word = "";
  double means = 0;

  [[nodiscard]] double read(const std::string& text) const {
    if (*word != 0 && text == word) return means;
    const auto value = number_from<double>(text);
    if (!value || !(*value >= low && *value <= high)) {
      fail(ErrorCode::kInvalidArgument, "'{}' must be a number from {} to {}", text, low, high);
    }
    return *value;
  }
};

CLI::Option* add_number(CLI::App& app, const std::string& name, double& value,
                        const NumberOrWord& rule, const std::string& help) {
  return app
      .add_option_function<std::string>(
          name, [&value, rule](const std::string& text) { value = rule.read(text); }, help)
      ->check(check_by([rule](const std::string& text) { static_cast<void>(rule.read(text)); }));
}

}  // namespace

void CommandTree::add_sim() {
  CLI::App& app = *root_.add_subcommand("sim", "plays a trace of jobs to the scheduler");
  SimCommand& c = sim_;
  add_path(app, "TRACE", c.trace, "jobs as CSV: docs/formats/trace-csv.md")
      ->required()
      ->option_text("(required)");
  add_text(app, "--nodes", c.nodes, "NxGPUS|FILE", "the machines (64x8)");
  std::string policies;
  for (const std::string& name : policy_names()) policies += name + "|";
  add_text(app, "--policy", c.policy, policies + "PATH.so", "who gets what when (balanced)");
  add_number(app, "--limits", c.limits, {1, 1000, "exact", 1},
             "give jobs a time limit: their duration, or up to so many times as long (none)")
      ->type_name("exact|FACTOR");
  add_number(app, "--restart-cost", c.restart_cost_s, {0, 1e6},
             "seconds that a job loses when it is stopped for another (60)")
      ->type_name("SECONDS");
  app.add_flag("--from-start", c.from_start, "and it begins anew instead of going on")
      ->option_text(" ");
  app.add_flag("--one-user", c.one_user, "all jobs are one user's: no fair share")
      ->option_text(" ");
  add_number(app, "--load", c.load, {0.001, 1000},
             "jobs come in random order and stay, until they ask for so many times the GPUs")
      ->type_name("FACTOR");
  add_whole(app, "--seed", c.seed, {0, std::int64_t{1} << 40}, "of what is drawn at random (1)");
  add_output(app, c.output);
  app.footer(
      example("  harmonics sim philly.csv --nodes 64x8 --policy las\n"
              "  harmonics sim pods.csv --nodes nodes.csv --policy simple --load 1.3 --seed 3\n\n"
              "The clock is simulated; the scheduler is the server's own."));
  app.callback([this] { command_ = sim_; });
}

}  // namespace harmonics::inline in_options
