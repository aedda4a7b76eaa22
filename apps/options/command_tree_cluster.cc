// The subcommands of the cluster.
#include <algorithm>
#include <cmath>
#include <functional>

#include <harmonics/base/nearest_word.h>
#include <harmonics/base/number_text.h>
#include <harmonics/cluster/policy.h>

#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

constexpr std::int64_t kMaxPort = 65535;
constexpr std::int64_t kMaxNumber = std::int64_t{1} << 40;
constexpr std::int64_t kMaxLeaseSeconds = 3600;
constexpr std::int64_t kMaxPriority = 1'000'000;
constexpr std::int64_t kMaxHoldSeconds = 30 * 24 * 3600;
constexpr const char* kTaskStates =
    "waiting|pending|delayed|active|succeeded|failed|cancelled|dependency_failed";

void add_task_id(CLI::App& app, std::int64_t& task) {
  add_whole(app, "ID", task, {1, kMaxNumber}, "the task");
  app.get_option("ID")->required()->option_text("(required)");
}

void add_task_ids(CLI::App& app, const std::string& name, std::vector<std::int64_t>& tasks,
                  const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [&tasks](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) tasks.push_back(whole_number(text, 1, kMaxNumber));
         },
         help)
      ->type_name("ID")
      ->check(check_by(
          [](const std::string& text) { static_cast<void>(whole_number(text, 1, kMaxNumber)); }));
}

/// A CLI11 check of a number without a leading zero that has at most so many digits, or of a word.
std::function<std::string(const std::string&)> check_number_or(const char* word, std::size_t digits,
                                                               const char* numbers) {
  return check_by([=](const std::string& text) {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    const bool number = !text.empty() && text.size() <= digits && std::ranges::all_of(text, digit);
    if (text == word || (number && text.front() != '0')) return;
    fail(ErrorCode::kInvalidArgument, "'{}' is neither '{}' nor {}", text, word, numbers);
  });
}

/// Flags that each set the field of a task that task JSON calls `key`.
struct TaskFlags {
  CLI::App& app;
  std::vector<TaskFlag>& fields;

  void number(const std::string& flag, const std::string& key, std::int64_t least,
              const std::string& help) const {
    const auto whole = [least](const std::string& text) {
      return whole_number(text, least, kMaxNumber);
    };
    add(
        flag, key, [whole](const std::string& text) { return Json(whole(text)); }, help)
        ->type_name("N")
        ->check(check_by([whole](const std::string& text) { static_cast<void>(whole(text)); }));
  }
  void text(const std::string& flag, const std::string& key, const std::string& placeholder,
            const std::string& help) const {
    add(
        flag, key, [](const std::string& text) { return Json(text); }, help)
        ->type_name(placeholder);
  }
  /// One of "a|b|c".
  void choice(const std::string& flag, const std::string& key, const std::string& names,
              const std::string& help) const {
    text(flag, key, names, help);
    app.get_option(flag)->check(check_choice(names));
  }
  CLI::Option* add(const std::string& flag, const std::string& key,
                   std::function<Json(const std::string&)> read, const std::string& help) const {
    return app.add_option_function<std::string>(
        flag,
        [=, &fields = fields](const std::string& text) {
          if (!text.empty()) fields.push_back({flag, key, read(text)});
        },
        help);
  }
};

std::pair<std::string, std::string> split_pair(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not of the form KEY=VALUE", text);
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void add_pairs(CLI::App& app, const std::string& name,
               std::vector<std::pair<std::string, std::string>>& pairs, const std::string& help,
               const char* shape = "KEY=VALUE") {
  app.add_option_function<std::vector<std::string>>(
         name,
         [&pairs](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) pairs.push_back(split_pair(text));
         },
         help)
      ->type_name(shape)
      ->allow_extra_args(false)
      ->check(check_by([](const std::string& text) { static_cast<void>(split_pair(text)); }));
}

double seconds_from(const std::string& text) {
  const auto value = number_from<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0 || *value > 1e9) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not a number of seconds", text);
  }
  return *value;
}

void add_factor(CLI::App& app, const std::string& name, double& value, const std::string& help) {
  app.add_option(name, value, help)
      ->type_name("X")
      ->option_text("X")
      ->check(check_by([](const std::string& text) {
        if (seconds_from(text) >= 1 && seconds_from(text) <= 1000) return;
        fail(ErrorCode::kInvalidArgument, "'{}' is not a factor from 1 to 1000", text);
      }));
}

}  // namespace

void add_seconds(CLI::App& app, const std::string& name, double& value, const std::string& help) {
  app.add_option_function<std::string>(
         name, [&value](const std::string& text) { value = seconds_from(text); }, help)
      ->type_name("SECONDS")
      ->check(check_by([](const std::string& text) { static_cast<void>(seconds_from(text)); }));
}

void add_place(CLI::App& app, ServerAccess& access) {
  add_text(app, "--scheduler", access.scheduler, "HOST:PORT[,...]", "the server (localhost:50051)");
  add_path(app, "--token-file", access.token_file, "who you are (the server's state folder's)");
  add_folder(app, "--state-dir", access.state_dir, "the state folder (~/.local/state/harmonics)");
  add_folder(app, "--tls", access.tls, "folder of 'harmonics server --init': speak TLS");
}

void add_access(CLI::App& app, ServerAccess& access) {
  add_place(app, access);
  add_seconds(app, "--patience", access.patience_s,
              "how long to wait for a server that is not up yet (10)");
}

void CommandTree::add_cluster() {
  add_server();
  add_worker();
  add_submit();
  add_monitor();
  add_tasks();
  add_task(task_, "task", "shows one task");
  add_task(why_, "why", "says why a task is not running");
  add_logs();
  add_artifacts();
  add_report();
  add_cancel_and_wait();
  add_workers();
  add_drain();
  add_quota();
  add_alloc();
  add_up();
  add_sim();
}

void CommandTree::add_server() {
  CLI::App& app = *root_.add_subcommand("server", "runs the scheduler of a cluster");
  ServerCommand& c = server_;
  add_whole(app, "--port", c.port, {0, kMaxPort},
            "where it listens, and with --init what client.yml says; 0 picks one (50051)");
  std::string policies;
  for (const std::string& name : policy_names()) policies += name + "|";
  add_text(app, "--policy", c.policy, policies + "PATH.so", "who gets a task (balanced)");
  add_text(app, "--host", c.host, "ADDRESS", "on which address (127.0.0.1)");
  add_folder(app, "--state-dir", c.state_dir, "the state folder (~/.local/state/harmonics)");
  add_text(app, "--store", c.store, "FILE|postgres://...",
           "where tasks are kept (cluster.sqlite in the state folder)");
  app.add_flag("--new-store", c.new_store, "begin anew although the store was lost")
      ->option_text(" ");
  add_whole(app, "--http", c.http_port, {0, kMaxPort},
            "serve the page, /metrics and /status there");
  app.add_flag("--metrics-open", c.metrics_open, "/metrics and /status ask for no token")
      ->option_text(" ");
  add_folder(app, "--tls", c.tls, "folder of --init: speak TLS only");
  add_path(app, "--tokens", c.tokens_file, "more tokens: lines of 'ROLES USER TOKEN'");
  app.add_flag("--insecure", c.insecure, "listen on a public address without TLS")
      ->option_text(" ");
  add_folder(app, "--init", c.init, "make certificates and tokens in this folder, then end");
  add_texts(app, "--init-host", c.init_hosts, "HOST",
            "a name or address of the server or of a worker's machine (repeatable)")
      ->option_text("HOST");
  add_texts(app, "--init-user", c.init_users, "NAME[:ROLE]",
            "a user with certificate and token of one's own (repeatable)")
      ->option_text("NAME[:ROLE]");
  add_whole(app, "--init-days", c.init_days, {1, 3650}, "how long they are good for (730)");
  add_texts(app, "--revoke", c.revoked, "NAME", "with --init: let it in no longer (repeatable)")
      ->option_text("NAME");
  add_whole(app, "--lease", c.lease_s, {1, kMaxLeaseSeconds},
            "seconds of silence after which a worker counts as away (30)");
  add_whole(app, "--hold", c.hold_s, {1, kMaxHoldSeconds},
            "seconds that a worker without a server goes on with its tasks (900)");
  add_whole(app, "--rate", c.rate, {1, kMaxNumber}, "requests of one user in a second (20000)");
  add_whole(app, "--max-priority", c.max_priority, {-kMaxPriority, kMaxPriority},
            "the highest --priority of users who are no admins (0)");
  app.footer(
      example("  harmonics server --port 50051 --policy balanced\n"
              "  harmonics server --init certificates --init-host head.example --init-user ann\n"
              "  harmonics server --init certificates --revoke ann\n"
              "  harmonics server --host 0.0.0.0 --tls certificates --http 9090"));
  app.callback([this] { command_ = server_; });
}

void CommandTree::add_worker() {
  CLI::App& app = *root_.add_subcommand("worker", "runs tasks on this machine");
  WorkerCommand& c = worker_;
  add_place(app, c.access);
  add_text(app, "--gpus", c.gpus, "ID[,ID...]", "its GPUs (what NVML or nvidia-smi lists)");
  add_text(app, "--models", c.models, "NAME[,NAME...]", "their models");
  add_text(app, "--memories", c.memories, "MB[,MB...]", "their memory sizes");
  add_text(app, "--addr", c.address, "HOST:PORT", "where it serves logs (localhost:0)");
  add_text(app, "--id", c.id, "NAME", "its name (the server picks worker-1, worker-2 …)");
  add_whole(app, "--cpus", c.cpus, {0, kMaxNumber}, "cores that tasks may have (all)");
  add_whole(app, "--memory", c.memory_mb, {0, kMaxNumber}, "MB that tasks may have (all)");
  add_pairs(app, "--resource", c.resources, "what else tasks may ask for, counted (repeatable)",
            "NAME=N");
  add_pairs(app, "--label", c.labels, "what tasks may ask of it (repeatable)");
  add_factor(app, "--slowdown", c.slowdown,
             "pose as a machine that computes so many times as long (1)");
  add_seconds(app, "--idle", c.idle_s, "end after so long without a task (never)");
  add_whole(app, "--log-mb", c.log_mb, {1, kMaxNumber}, "MB kept of each stream of a task (64)");
  add_whole(app, "--artifact-mb", c.artifact_mb, {0, kMaxNumber},
            "MB kept of its artifacts (4096)");
  add_whole(app, "--keep-mb", c.keep_mb, {0, kMaxNumber}, "MB kept of all ended tasks (65536)");
  add_folder(app, "--cgroup", c.cgroup,
             "a folder of cgroup v2 for its tasks, or 'none' (what it may use)");
  add_text(app, "--task-user", c.task_user, "USER",
           "run tasks as this user, or 'owner': as the user with the name of each task's owner; "
           "needs root (its own user)");
  add_folder(app, "--task-dir", c.task_dir, "where they work then (/var/tmp)");
  app.footer(
      example("  harmonics worker --scheduler localhost:50051 --gpus 0,1 \\\n"
              "    --models RTX3090,RTX3090 --memories 24576,24576\n\n"
              "Without GPUs it takes tasks that need none. Tasks outlive it: started again in the "
              "same state folder, it finds them."));
  app.callback([this] { command_ = worker_; });
}

void CommandTree::add_submit_needs(CLI::App& app) {
  const TaskFlags flags{app, submit_.fields};
  const auto devices = [](const std::string& text) {
    if (text.find('.') == text.npos) return Json(whole_number(text, 0, kMaxNumber));
    const auto share = number_from<double>(text);
    if (share && *share > 0 && *share < 1) return Json(*share);
    fail(ErrorCode::kInvalidArgument, "'{}' is neither a whole number nor a share such as 0.25",
         text);
  };
  flags
      .add("--gpus", "required_gpus", devices,
           "GPUs, or a share of one such as 0.25; 0 for a task that needs none (1)")
      ->type_name("N|SHARE")
      ->check(check_by([devices](const std::string& text) { static_cast<void>(devices(text)); }));
  flags.number("--memory", "min_gpu_memory", 0, "MB of each GPU at least (4096)");
  flags.number("--cpus", "cpus", 0, "cores; 0: however many (1 without GPUs, else 0)");
  flags.number("--host-memory", "memory_mb", 0, "MB of main memory (0)");
  flags.number("--priority", "priority", -kMaxNumber,
               "larger goes first and stops running tasks of a smaller one (0)");
  flags.number("--timeout", "timeout_s", 0, "seconds it may run (no limit)");
  flags.number("--retries", "max_retries", 0, "further attempts if it fails (0)");
  const auto losses = [](const std::string& text) {
    return text == "unlimited" ? Json(text) : Json(whole_number(text, 1, kMaxNumber));
  };
  flags
      .add("--max-losses", "max_losses", losses,
           "it fails when it was lost with its worker so often (5)")
      ->type_name("N|unlimited")
      ->check(check_number_or("unlimited", 6, "a number from 1 to 999999"));
  flags.choice("--on-disconnect", "on_disconnect", "continue|stop|forever",
               "what its worker does with it without the server (continue)");
  flags.number("--gang", "gang", 1, "workers at once, all or none (1)");
  flags.number("--array", "array", 1, "that many tasks, told apart by index");
  SubmitCommand& c = submit_;
  add_texts(app, "--gpu-model", c.gpu_models, "NAME", "GPUs of this model alone (repeatable: or)")
      ->option_text("NAME");
  add_pairs(app, "--resource", c.resources,
            "so many of what 'harmonics worker --resource' counts (repeatable)", "NAME=N");
  add_pairs(app, "--label", c.labels, "only on workers with this label (repeatable)");
  add_text(app, "--apart", c.apart, "GROUP", "never on a worker with a task of the same group");
  add_texts(app, "--variant", c.variants, "KEY=N,...",
            "or with this: gpus, memory, cpus, host-memory, resource.NAME; the heaviest that fits "
            "is taken, by weight (1) (repeatable)")
      ->option_text("KEY=N,...");
  app.add_flag("--wait-for-machines", c.wait_for_machines,
               "queue it although no worker that is known could run it")
      ->option_text(" ");
  flags.text("--container", "container", "IMAGE",
             "run the command in this image, by podman or apptainer");
}

void CommandTree::add_submit_pipeline(CLI::App& app) {
  SubmitCommand& c = submit_;
  add_path(app, "--pipeline", c.pipeline,
           "train this model (a file or a name of the zoo) in stages, each on a worker");
  app.add_flag("--infer", c.infer, "with --pipeline: run it over its data, and learn nothing")
      ->option_text(" ");
  add_path(app, "--weights", c.weights,
           "with --infer: weights, where all workers see them (those that the model names)");
  add_bindings(app, "--out", c.outputs,
               "with --infer: a consumer's rows as csv:FILE, an artifact of the task (repeatable)");
  app.add_option_function<std::string>(
         "--stages",
         [&c](const std::string& text) { c.stages = text == "auto" ? 0 : std::stoll(text); },
         "into how many stages (auto: what the plan finds best)")
      ->type_name("auto|N")
      ->check(check_number_or("auto", 3, "a number from 1 on"));
  add_bindings(app, "--bind", c.bindings, "data of a producer (repeatable)");
  for (const char* key : {"epochs", "batch_size", "micro_batches", "reproducible"}) {
    add_setting(app, *find_train_setting_rule(key), c.settings);
  }
  app.add_option_function<std::vector<std::string>>(
         "--set",
         [&c](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const std::size_t equals = text.find('=');
             c.settings.push_back({text.substr(0, equals), text.substr(equals + 1), 0});
           }
         },
         "another setting of 'harmonics train', such as lr=0.01 (repeatable)")
      ->type_name("KEY=VALUE")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false)
      ->check(check_by([](const std::string& text) {
        const std::size_t equals = text.find('=');
        const TrainSettingRule* rule =
            equals == text.npos ? nullptr : find_train_setting_rule(text.substr(0, equals));
        if (rule == nullptr) {
          std::vector<std::string> keys;
          for (const TrainSettingRule& one : train_setting_rules()) keys.push_back(one.key);
          fail(ErrorCode::kInvalidArgument,
               "'{}' is not KEY=VALUE with a setting of 'harmonics train'{}", text,
               suggestion(text.substr(0, equals), keys));
        }
        TrainSettings scratch;
        rule->apply(scratch, text.substr(equals + 1));
      }));
  add_folder(app, "--checkpoint-dir", c.checkpoint_dir,
             "a folder that the server and all workers share (one of the server's)");
  add_whole(app, "--checkpoint-every", c.checkpoint_every, {1, 1'000'000'000},
            "save every so many steps (100)");
  app.add_flag("--elastic", c.elastic, "move to a better plan when workers join")->option_text(" ");
  app.add_flag("--secure", c.secure,
               "sign and check every tensor between stages; chains lie beside the checkpoint")
      ->option_text(" ");
  app.add_flag("--profile", c.profile, "measure the model on each worker before the first plan")
      ->option_text(" ");
  app.add_flag("--trace", c.trace, "keep when each stage worked on what, beside the checkpoint")
      ->option_text(" ");
}

void CommandTree::add_submit() {
  CLI::App& app = *root_.add_subcommand("submit", "hands a task to the cluster");
  SubmitCommand& c = submit_;
  add_access(app, c.access);
  const TaskFlags fields{app, c.fields};
  fields.text("--name", "name", "NAME", "what to call it");
  add_path(app, "--config", c.config, "a task as JSON; flags win over it");
  add_path(app, "--dag", c.dag, "many tasks that wait for each other, as JSON: all or none");
  add_submit_needs(app);
  add_task_ids(app, "--after", c.after, "only once this task has succeeded (repeatable)");
  app.get_option("--after")->allow_extra_args(false);
  add_pairs(app, "--param", c.params, "a parameter, HARMONICS_PARAM_KEY in the task (repeatable)");
  app.add_flag_callback(
         "--strict-data", [&c] { c.params.emplace_back("strict_data", "true"); },
         "the built-in trainer: a data set that is not there is an error, nothing is made up")
      ->option_text(" ");
  add_pairs(app, "--env", c.env, "a variable of its environment (repeatable)");
  app.add_option("--env-file", c.env_files, "lines of KEY=VALUE, before those (repeatable)")
      ->type_name("FILE")
      ->option_text("FILE")
      ->allow_extra_args(false);
  app.add_option("--artifact", c.artifacts,
                 "a file, folder or pattern below its working directory to keep (repeatable)")
      ->type_name("PATTERN")
      ->option_text("PATTERN")
      ->allow_extra_args(false);
  add_text(app, "--workdir,--chdir", c.working_dir, "FOLDER",
           "where it runs (a fresh folder); with --upload, a folder among those files");
  app.add_option("--upload", c.upload,
                 "a file or a folder ('.') that goes with it into its fresh folder; 256 files, "
                 "512 KiB in all (repeatable)")
      ->type_name("PATH")
      ->option_text("PATH")
      ->allow_extra_args(false);
  fields.text("--key", "idempotency_key", "TEXT",
              "the same key is the same task, however often it is sent");
  add_submit_pipeline(app);
  add_path(app, "--serve", submit_.serve,
           "serve this language model; 'harmonics task' has its address, and what follows -- are "
           "flags of 'harmonics serve'")
      ->excludes(app.get_option("--pipeline"));
  app.add_flag("--wait", c.wait, "wait for its end; exit code 1 unless it succeeds")
      ->option_text(" ");
  app.add_option("COMMAND", c.command, "what to run (the built-in trainer)")
      ->type_name("COMMAND")
      ->option_text("[-- PROGRAM ARGUMENT ...]");
  add_output(app, c.output);
  app.footer(example(
      "  harmonics submit --scheduler localhost:50051 --name \"ResNet50 Training\" \\\n"
      "    --gpus 2 --memory 8192\n"
      "  harmonics submit --config examples/sample_task.json\n"
      "  harmonics submit --name sweep --gpus 1 --array 100 --upload . -- python3 train.py\n"
      "  harmonics submit --gpus 0.25 --variant gpus=0,cpus=16,weight=0.5 -- python3 train.py\n"
      "  harmonics submit --pipeline examples/digits.harp --stages 3 --epochs 30\n"
      "  harmonics submit --serve smollm2 -- --sequences 8\n"
      "  harmonics submit --pipeline examples/digits.harp --infer --weights digits.safetensors \\\n"
      "    --out prediction=csv:rows.csv"));
  app.callback([this] { command_ = submit_; });
}

void CommandTree::add_monitor() {
  CLI::App& app = *root_.add_subcommand("monitor", "watches workers, devices, queue and tasks");
  add_access(app, monitor_.access);
  add_text(app, "--worker", monitor_.worker, "NAME", "only this worker");
  add_seconds(app, "--refresh", monitor_.refresh_s, "how often (1)");
  add_output(app, monitor_.output);
  app.footer(example(
      "  harmonics monitor --scheduler localhost:50051 --worker worker-1 --refresh 1\n\n"
      "On a terminal until q or Ctrl-C, other views by key: t tasks, m machine, p pipelines,\n"
      "l output, s sort, / find; elsewhere, and with --output json or quiet, once."));
  app.callback([this] { command_ = monitor_; });
}

void CommandTree::add_tasks() {
  CLI::App& app = *root_.add_subcommand("tasks", "lists tasks, the newest last");
  add_access(app, tasks_.access);
  app.add_option("--state", tasks_.states, "only tasks in this state (repeatable)")
      ->type_name(kTaskStates)
      ->option_text("STATE")
      ->allow_extra_args(false)
      ->check(check_choice(kTaskStates));
  add_text(app, "--worker", tasks_.worker, "NAME",
           "only tasks that run or ran last on this worker");
  add_whole(app, "--limit", tasks_.limit, {1, 1'000'000}, "how many at most (50)");
  add_output(app, tasks_.output);
  app.footer(example("  harmonics tasks --state active --state pending --output json"));
  app.callback([this] { command_ = tasks_; });
}

void CommandTree::add_task(TaskCommand& task, const std::string& name, const std::string& help) {
  CLI::App& app = *root_.add_subcommand(name, help);
  add_access(app, task.access);
  add_task_id(app, task.task);
  add_output(app, task.output);
  task.why = name == "why";
  app.footer(example(format("  harmonics {} 17", name)));
  app.callback([this, &task] { command_ = task; });
}

void CommandTree::add_logs() {
  CLI::App& app = *root_.add_subcommand("logs", "prints what a task prints");
  add_access(app, logs_.access);
  add_task_id(app, logs_.task);
  app.add_flag("-f,--follow", logs_.follow, "go on until the task has ended")->option_text(" ");
  add_name(app, "--stream", logs_.stream, "out|err|metrics", "which one (out)");
  add_whole(app, "--attempt", logs_.attempt, {0, kMaxNumber}, "of which attempt (0: the latest)");
  add_whole(app, "--rank", logs_.rank, {0, kMaxNumber}, "of which member of a gang (0)");
  app.footer(example("  harmonics logs -f 17\n  harmonics logs 17 --stream err"));
  app.callback([this] { command_ = logs_; });
}

void CommandTree::add_artifacts() {
  CLI::App& app = *root_.add_subcommand("artifacts", "lists or fetches the files that a task left");
  ArtifactsCommand& c = artifacts_;
  add_access(app, c.access);
  add_task_id(app, c.task);
  app.add_option("PATH", c.paths, "only these of them")
      ->type_name("PATH")
      ->option_text("[PATH ...]");
  add_folder(app, "--to", c.to, "fetch them into this folder");
  add_whole(app, "--attempt", c.attempt, {0, kMaxNumber}, "of which attempt (0: the latest)");
  add_whole(app, "--rank", c.rank, {0, kMaxNumber},
            "of which member of a gang (0; of a pipeline with --infer, all that have results)");
  add_output(app, c.output);
  app.footer(example("  harmonics artifacts 17\n  harmonics artifacts 17 --to results"));
  app.callback([this] { command_ = artifacts_; });
}

void CommandTree::add_report() {
  CLI::App& app =
      *root_.add_subcommand("report", "writes all of a task into one page that needs no server");
  ReportCommand& c = report_;
  add_access(app, c.access);
  add_task_id(app, c.task);
  add_path(app, "-o,--out", c.out, "the file (task-ID.html)");
  add_output(app, c.output);
  app.footer(example("  harmonics report 17 -o training.html"));
  app.callback([this] { command_ = report_; });
}

void CommandTree::add_cancel_and_wait() {
  CLI::App& cancel = *root_.add_subcommand("cancel", "stops tasks, or takes them off the queue");
  add_access(cancel, cancel_.access);
  add_task_ids(cancel, "ID", cancel_.tasks, "the tasks; the first id of an array means all of it");
  cancel.get_option("ID")->required()->option_text("(required)");
  cancel.footer(example("  harmonics cancel 17 18"));
  cancel.callback([this] { command_ = cancel_; });

  CLI::App& priority = *root_.add_subcommand("priority", "changes the priority of a task");
  add_access(priority, priority_.access);
  add_task_id(priority, priority_.task);
  add_whole(priority, "N", priority_.priority, {-kMaxPriority, kMaxPriority},
            "larger goes first; the first id of an array means all of it");
  priority.get_option("N")->required()->option_text("(required)");
  add_output(priority, priority_.output);
  priority.footer(example("  harmonics priority 17 5"));
  priority.callback([this] { command_ = priority_; });

  CLI::App& wait = *root_.add_subcommand("wait", "waits until tasks have ended");
  add_access(wait, wait_.access);
  add_task_ids(wait, "ID", wait_.tasks, "the tasks; the first id of an array means all of it");
  wait.get_option("ID")->required()->option_text("(required)");
  add_seconds(wait, "--timeout", wait_.timeout_s, "give up after that time (never)");
  add_output(wait, wait_.output);
  wait.footer(
      example("  harmonics wait 17 && echo done\n\n"
              "Exit code 0 when all have succeeded, 1 otherwise."));
  wait.callback([this] { command_ = wait_; });
}

void CommandTree::add_workers() {
  CLI::App& app = *root_.add_subcommand("workers", "lists workers and their devices");
  add_access(app, workers_.access);
  add_output(app, workers_.output);
  app.footer(example("  harmonics workers --output json"));
  app.callback([this] { command_ = workers_; });
}

void CommandTree::add_drain() {
  CLI::App& app = *root_.add_subcommand("drain", "gives a worker no further tasks");
  add_access(app, drain_.access);
  add_text(app, "WORKER", drain_.worker, "NAME", "the worker")
      ->required()
      ->option_text("(required)");
  CLI::Option* undo = app.add_flag("--undo", drain_.undo, "give it tasks again");
  undo->option_text(" ");
  app.add_flag("--forget", drain_.forget,
               "the machine is dead: count its tasks as lost and forget it")
      ->excludes(undo)
      ->option_text(" ");
  app.footer(example("  harmonics drain worker-2\n  harmonics drain worker-2 --undo"));
  app.callback([this] { command_ = drain_; });
}

void CommandTree::add_quota() {
  CLI::App& app = *root_.add_subcommand("quota", "shows or sets what users may have at once");
  QuotaCommand& c = quota_;
  add_access(app, c.access);
  add_text(app, "USER", c.user, "USER", "the user; without one, shows all");
  add_whole(app, "--gpus", c.max_gpus, {0, kMaxNumber}, "GPUs at once (0: no limit)");
  add_whole(app, "--active", c.max_active, {0, kMaxNumber}, "active tasks (0: no limit)");
  add_whole(app, "--waiting", c.max_waiting, {0, kMaxNumber}, "tasks in the queue (0: no limit)");
  add_whole(app, "--weight", c.weight, {1, kMaxNumber}, "fair share: twice as much, twice as many");
  add_output(app, c.output);
  app.footer(example("  harmonics quota\n  harmonics quota alice --gpus 8 --weight 2") +
             "\n\nA limit that is named sets all of them anew: one that is not is none, the weight "
             "1. Without any, shows what there is.");
  app.callback([this, &app] {
    for (const char* flag : {"--gpus", "--active", "--waiting", "--weight"}) {
      if (app.count(flag) > 0) quota_.sets = true;
    }
    if (quota_.sets && quota_.user.empty()) {
      throw CLI::ValidationError("USER: say whose limits are to be set");
    }
    command_ = quota_;
  });
}

}  // namespace harmonics::inline in_options
