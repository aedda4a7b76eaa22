// The subcommands that the front runs itself; each lies in the file of its name. They print to
// standard output, give the exit code, and fail by throwing an Error.
#pragma once

#include <harmonics/options/command_line.h>
#include <harmonics/options/commands.h>

namespace harmonics::inline in_front {

int graph_show(const GraphShowCommand& command);
int graph_check(const GraphCheckCommand& command);
int graph_parts(const GraphPartsCommand& command);
int graph_draw(const GraphDrawCommand& command);
int graph_zoo(const GraphZooCommand& command);
int import_source(const ImportCommand& command);
int export_model(const ExportCommand& command);
int plan(const PlanCommand& command);
/// For the goals of texts.
int plan_text(const PlanCommand& command);
/// kExitOffPlan where the run differs from the plan by more than the tolerance.
int plan_check(const PlanCommand& command);
int dispatch_trace(const DispatchTraceCommand& command);
int trace(const TraceCommand& command);
/// Never returns but by an Error.
int profile_serve(const ProfileCommand& command);
int profile_from_run(const ProfileCommand& command);
int keys_new(const KeysNewCommand& command);
int keys_show(const KeysShowCommand& command);
int verify(const VerifyCommand& command);
int sign(const SignCommand& command);
int custody_export(const CustodyExportCommand& command);
int custody_import(const CustodyImportCommand& command);
int custody_show(const CustodyShowCommand& command);
int tokens(const TokensCommand& command);
int doctor(const DoctorCommand& command);
int completion(const CompletionCommand& command);

}  // namespace harmonics::inline in_front
