// Workers that others start: a batch system, SSH.
#include <harmonics/base/number_text.h>

#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

constexpr std::int64_t kMaxAllocWorkers = 10'000;
constexpr double kMaxDurationSeconds = 30.0 * 24 * 3600;

/// "90", "90s", "2m", "1.5h" as seconds.
double duration_from(const std::string& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto value = number_from<double>(text.substr(0, digits));
  const std::string unit = text.substr(digits);
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (!value || factor == 0 || *value * factor > kMaxDurationSeconds) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no duration such as 90s, 2m or 1h, 30 days at most",
         text);
  }
  return *value * factor;
}

void add_duration(CLI::App& app, const std::string& name, double& value, const std::string& help) {
  app.add_option_function<std::string>(
         name, [&value](const std::string& text) { value = duration_from(text); }, help)
      ->type_name("TIME")
      ->check(check_by([](const std::string& text) { static_cast<void>(duration_from(text)); }));
}

}  // namespace

void CommandTree::add_alloc() {
  CLI::App& app = *root_.add_subcommand("alloc", "starts workers through a batch system as needed");
  app.require_subcommand(1);
  app.footer(example("  harmonics alloc slurm --max-workers 8 --idle 2m -- --partition gpu"));
  slurm_.system = "slurm";
  pbs_.system = "pbs";
  add_alloc_system(app, slurm_);
  add_alloc_system(app, pbs_);
}

void CommandTree::add_alloc_system(CLI::App& alloc, AllocCommand& c) {
  const bool slurm = c.system == "slurm";
  CLI::App& app = *alloc.add_subcommand(c.system, slurm ? "through Slurm: sbatch, squeue, scancel"
                                                        : "through PBS: qsub, qstat, qdel");
  add_access(app, c.access);
  add_whole(app, "--max-workers", c.max_workers, {1, kMaxAllocWorkers}, "at once, at most (8)");
  add_duration(app, "--idle", c.idle_s, "a worker without a task for so long goes (2m)");
  add_text(app, "--name", c.name, "NAME", "workers and jobs are NAME-1, NAME-2 … (harmonics)");
  add_text(app, "--worker-flags", c.worker_flags, "TEXT",
           "more flags of 'harmonics worker', such as \"--task-dir /scratch\"");
  add_duration(app, "--period", c.period_s, "how often it looks (2s)");
  CLI::Option* dry = app.add_flag("--dry-run", c.dry_run, "print what a job would run, and end");
  dry->option_text(" ");
  app.add_flag("--down", c.down, "let all its workers go once their tasks have ended, and end")
      ->excludes(dry)
      ->option_text(" ");
  app.add_option("FLAG", c.flags, slurm ? "flags of sbatch" : "flags of qsub")
      ->type_name("FLAG")
      ->option_text("[-- FLAG ...]");
  add_output(app, c.output);
  app.footer(
      example(
          slurm
              ? "  harmonics alloc slurm --max-workers 8 --idle 2m -- --partition gpu --gres gpu:1"
              : "  harmonics alloc pbs --max-workers 4 -- -q gpu -l select=1:ncpus=8:ngpus=1") +
      "\n\nRuns until Ctrl-C; workers stay then, and the next one finds them by their names.");
  app.callback([this, &c] { command_ = c; });
}

void CommandTree::add_up() {
  CLI::App& app = *root_.add_subcommand("up", "starts workers on hosts over SSH");
  UpCommand& c = up_;
  add_path(app, "HOSTS", c.hosts,
           "a line for each host: [USER@]HOST[:PORT] [flag of its worker ...]")
      ->required()
      ->option_text("(required)");
  add_access(app, c.access);
  CLI::Option* down = app.add_flag_callback(
      "--down", [&c] { c.wish = UpWish::kDown; }, "end the workers, once their tasks have ended");
  down->option_text(" ");
  app.add_flag_callback(
         "--status", [&c] { c.wish = UpWish::kStatus; }, "say where workers run, change nothing")
      ->excludes(down)
      ->option_text(" ");
  app.add_flag("--force", c.force, "with --down: do not wait for their tasks, which go on")
      ->option_text(" ");
  add_text(app, "--as-seen", c.as_seen, "HOST:PORT",
           "the server as the hosts reach it (--scheduler)");
  add_text(app, "--program", c.program, "PATH", "harmonics on the hosts (harmonics)");
  add_text(app, "--ssh", c.ssh, "TEXT", "the SSH to use, with its flags (ssh)");
  add_whole(app, "--parallel", c.parallel, {1, 256}, "hosts at a time (16)");
  add_seconds(app, "--timeout", c.timeout_s, "of each host (60)");
  add_output(app, c.output);
  app.footer(
      example("  harmonics up hosts.txt --tls certificates --as-seen head.example:50051\n"
              "  harmonics up hosts.txt --status\n"
              "  harmonics up hosts.txt --down\n\n"
              "A host where its worker runs already is left as it is. Exit code 1 unless all "
              "hosts are as wished."));
  app.callback([this] { command_ = up_; });
}

}  // namespace harmonics::inline in_options
