// The tree of subcommands in terms of CLI11; only command_tree*.cc and command_line.cc see it.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/options/commands.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_options {

/// Declares every subcommand and flag once. Parse one command line with it, or walk it. The options
/// point into it: it stays where it was made.
class CommandTree {
 public:
  CommandTree();
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;

  [[nodiscard]] CLI::App& root() { return root_; }
  /// The command, once root() has parsed a command line.
  [[nodiscard]] const std::optional<Command>& command() const { return command_; }

 private:
  void add_graph();
  void add_draw(CLI::App& graph, GraphDrawCommand& draw, const std::string& name);
  void add_import();
  void add_export();
  void add_train();
  void add_stage();
  void add_stage_inference(CLI::App& stage);
  void add_stage_generation(CLI::App& stage);
  void add_run();
  void add_profile();
  void add_profile_files(CLI::App& profile);
  void add_plan();
  void add_quantize();
  /// What the command with the flags of a secure run does.
  enum class SecureUse { kTrains, kRuns, kStages };
  void add_secure(CLI::App& app, SecureFlags& secure, SecureUse use);
  void add_dispatch_sweep();
  void add_dispatch_trace();
  void add_trace();
  void add_keys();
  void add_verify();
  void add_sign();
  void add_custody();
  void add_tokens();
  void add_text_model(CLI::App& app, TextModelFlags& model);
  void add_generate();
  void add_token_stage();
  void add_serve();
  void add_cluster();
  void add_server();
  void add_worker();
  void add_submit();
  void add_submit_needs(CLI::App& submit);
  void add_submit_pipeline(CLI::App& submit);
  void add_monitor();
  void add_tasks();
  void add_task(TaskCommand& task, const std::string& name, const std::string& help);
  void add_logs();
  void add_artifacts();
  void add_report();
  void add_cancel_and_wait();
  void add_workers();
  void add_drain();
  void add_quota();
  void add_sim();
  void add_alloc();
  void add_alloc_system(CLI::App& alloc, AllocCommand& c);
  void add_up();
  void add_devices();
  void add_doctor();
  void add_completion();

  CLI::App root_;
  std::optional<Command> command_;
  GraphShowCommand show_;
  GraphCheckCommand check_;
  GraphDrawCommand dot_{.format = DrawingFormat::kDot, .file = {}, .out = {}};
  GraphDrawCommand svg_{.format = DrawingFormat::kSvg, .file = {}, .out = {}};
  GraphPartsCommand parts_;
  GraphZooCommand zoo_;
  ImportCommand import_;
  ExportCommand export_;
  TrainCommand train_;
  StageCommand stage_;
  RunCommand run_;
  QuantizeCommand quantize_;
  ProfileCommand profile_;
  PlanCommand plan_;
  DispatchSweepCommand dispatch_sweep_;
  DispatchTraceCommand dispatch_trace_;
  TraceCommand trace_;
  KeysNewCommand keys_new_;
  KeysShowCommand keys_show_;
  VerifyCommand verify_;
  SignCommand sign_;
  CustodyExportCommand custody_export_;
  CustodyImportCommand custody_import_;
  CustodyShowCommand custody_show_;
  TokensCommand tokens_;
  GenerateCommand generate_;
  TokenStageCommand token_stage_;
  ServeCommand serve_;
  ServerCommand server_;
  WorkerCommand worker_;
  SubmitCommand submit_;
  MonitorCommand monitor_;
  TasksCommand tasks_;
  TaskCommand task_;
  TaskCommand why_;
  LogsCommand logs_;
  ArtifactsCommand artifacts_;
  ReportCommand report_;
  CancelCommand cancel_;
  PriorityCommand priority_;
  WaitCommand wait_;
  WorkersCommand workers_;
  DrainCommand drain_;
  QuotaCommand quota_;
  SimCommand sim_;
  AllocCommand slurm_;
  AllocCommand pbs_;
  UpCommand up_;
  DevicesCommand devices_;
  DoctorCommand doctor_;
  CompletionCommand completion_;
};

}  // namespace harmonics::inline in_options
