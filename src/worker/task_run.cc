#include "task_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <sstream>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>
#include <harmonics/cluster/task_environment.h>
#include <harmonics/cluster/task_params.h>

#include "supervisor/process_tree.h"
#include "supervisor/task_process.h"

namespace harmonics::inline in_worker {
namespace {

constexpr std::uint64_t kSegmentBytes = 4 << 20;

std::string device_list(const StartMessage& start, const WorkerSpec& worker) {
  std::string names;
  start.devices.each([&](DeviceId id) {
    if (id.value >= worker.devices.size()) return;
    add_item(names, worker.devices[id.value].name, ",");
  });
  return names;
}

std::string peer_list(const StartMessage& start) {
  return joined(start.peers, ",",
                [](const PeerPlace& peer) { return peer.worker_name + "=" + peer.address; });
}

}  // namespace

std::uint16_t gang_port(const StartMessage& start) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char letter : start.gang_secret + to_string(start.id)) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  return static_cast<std::uint16_t>(kFirstGangPort + (hash >> 32) % kGangPorts);
}

namespace {

Json pairs_json(const TextPairs& pairs) {
  Json json = Json::object();
  for (const auto& [key, value] : pairs) json.set(key, value);
  return json;
}

std::string pipeline_text(const PipelineSpec& spec) {
  Json json;
  json.set("model", spec.model).set("bind", pairs_json(spec.bindings));
  json.set("settings", pairs_json(spec.settings));
  json.set("checkpoint_every", std::int64_t{spec.checkpoint_every});
  if (spec.infer) {
    json.set("infer", true).set("weights", spec.weights);
    json.set("weights_digest", spec.weights_digest).set("out", pairs_json(spec.outputs));
  }
  return json.set("trace", spec.trace).set("secure", spec.secure).dump();
}

using Environment = std::map<std::string, std::string>;

/// What in an environment is about the user whose it is, not about the machine.
bool is_personal(const std::string& key) {
  for (const char* name : {"MAIL", "PWD", "OLDPWD", "TMPDIR", "CREDENTIALS_DIRECTORY"}) {
    if (key == name) return true;
  }
  for (const char* start : {"XDG_", "SSH_", "SUDO_", "DBUS_"}) {
    if (key.starts_with(start)) return true;
  }
  return false;
}

/// What a task gets of the worker's own environment.
Environment inherited(const TaskSurroundings& around, const TaskAccount* account) {
  Environment environment;
  for (const auto& [key, value] : around.environment) {
    // What belongs to the worker or to a task around it is not passed down; what tells tasks about
    // the machine is.
    const bool of_machine = key == kKeysFolderVariable || key == kDataFolderVariable;
    if (!of_machine && key.starts_with(kVariablePrefix)) continue;
    if (account == nullptr || !is_personal(key)) environment[key] = value;
  }
  if (account == nullptr) return environment;
  environment["HOME"] = account->home;
  environment["USER"] = environment["LOGNAME"] = account->name;
  environment["SHELL"] = account->shell;
  return environment;
}

/// Its devices, its share of one, and what else is counted for it.
void add_devices(Environment& environment, const StartMessage& start, const WorkerSpec& worker) {
  const TaskSpec& spec = *start.spec;
  environment[kTaskDevicesVariable] = device_list(start, worker);
  environment["CUDA_VISIBLE_DEVICES"] = environment[kTaskDevicesVariable];
  for (const auto& [name, count] : spec.terms ? spec.terms->resources : ResourceCounts{}) {
    environment[resource_variable(name)] = std::to_string(count);
  }
  if (spec.gpu_share == kWholeDevice) return;
  environment[kGpuShareVariable] = share_text(spec.gpu_share);
  // The driver keeps to these where its sharing service (MPS) runs; else they are ignored.
  environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] =
      std::to_string(std::max(1U, spec.gpu_share * 100 / kWholeDevice));
  start.devices.each([&](DeviceId id) {
    if (id.value >= worker.devices.size()) return;
    const std::uint64_t memory_mb = worker.devices[id.value].memory_mb;
    environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] =
        format("0={}M", std::max<std::uint64_t>(1, memory_mb * spec.gpu_share / kWholeDevice));
  });
}

RunRecord limits_of(const TaskSpec& spec, const TaskSurroundings& around) {
  RunRecord run;
  run.timeout_ms = std::uint64_t{spec.timeout_s} * 1000;
  run.grace_ms = around.grace_ms;
  run.lease_bound = spec.on_disconnect == OnDisconnect::kStop;
  run.hold_bound = spec.on_disconnect == OnDisconnect::kContinue;
  run.lease_file = around.lease_file;
  run.stream_bytes = around.log_bytes;
  run.segment_bytes = std::min(kSegmentBytes, std::max<std::uint64_t>(around.log_bytes / 4, 1));
  run.artifacts = {spec.artifacts, around.artifact_bytes};
  return run;
}

/// The files that the stage of this rank makes of what leaves the model there.
std::vector<std::string> stage_files(const StartMessage& start) {
  std::vector<std::string> files;
  try {
    const Json plan = Json::parse(start.plan, "plan");
    const Json* stages = plan.find("stages");
    if (stages == nullptr) return files;  // It measures.
    const Json* out = stages->as_array().at(start.gang_rank).find("out");
    if (out == nullptr) return files;
    for (const Json& file : out->as_array()) files.push_back(file.as_string());
  } catch (const std::exception& error) {
    fail(ErrorCode::kInvalidArgument, "a plan that names no stage {}: {}", start.gang_rank,
         error.what());
  }
  return files;
}

/// Where the files lie, whatever folder the task runs in.
std::string tls_text(const TlsFiles& files) {
  const auto text = [](const std::filesystem::path& path) {
    return std::filesystem::absolute(path).string();
  };
  Json json;
  json.set("authority", text(files.authority)).set("certificate", text(files.certificate));
  return json.set("key", text(files.key)).dump();
}

}  // namespace

namespace {

/// Where a program lies on the worker's search path; empty: nowhere.
std::string program_on(const Environment& environment, const std::string& name) {
  const auto path = environment.find("PATH");
  std::istringstream folders(path == environment.end() ? "/usr/bin:/bin" : path->second);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (!folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

/// One word to the shell.
std::string quoted_word(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

/// The command in its image: the folder it runs in and the machine's network are there as well, and
/// the variables that it is given.
std::vector<std::string> in_container(const TaskSpec& spec, const Environment& environment) {
  std::vector<std::string> words = {"/bin/sh", "-c", "", "container"};
  const std::string podman = program_on(environment, "podman");
  const std::string apptainer = podman.empty() ? program_on(environment, "apptainer") : "";
  if (!podman.empty()) {
    words[2] = R"(p=$1; i=$2; shift 2; exec "$p" run --rm --network=host --volume="$PWD:$PWD" )"
               R"(--workdir="$PWD" '--env=HARMONICS_*' '--env=CUDA_*')";
    for (const auto& [key, value] : spec.env) words[2] += " --env=" + quoted_word(key);
    words[2] += R"( "$i" "$@")";
  } else if (!apptainer.empty()) {
    words[2] = R"(p=$1; i=$2; shift 2; exec "$p" exec --bind "$PWD" --pwd "$PWD" "$i" "$@")";
  } else {
    fail(ErrorCode::kInvalidArgument,
         "it wants the container '{}', and this worker has neither podman nor apptainer on its "
         "PATH: install one, or keep such tasks to workers that have it (--label)",
         spec.container);
  }
  words.push_back(podman.empty() ? apptainer : podman);
  words.push_back(spec.container);
  words.insert(words.end(), spec.command.begin(), spec.command.end());
  return words;
}

}  // namespace

RunRecord make_run(const StartMessage& start, const TaskSurroundings& around,
                   const TaskAccount* account, const std::string& folder) {
  const TaskSpec& spec = *start.spec;
  Environment environment = inherited(around, account);
  for (const auto& [key, value] : spec.env) environment[key] = value;
  for (const auto& [key, value] : spec.params) environment[param_variable(key)] = value;
  environment[kTaskIdVariable] = std::to_string(start.id.task.value);
  environment[kTaskNameVariable] = spec.name;
  environment[kAttemptVariable] = std::to_string(start.id.attempt.value);
  environment[kTaskUserVariable] = start.user;
  environment[kTaskWorkerVariable] = around.worker.name;
  environment[kArrayIndexVariable] = std::to_string(start.array_index);
  environment[kGangRankVariable] = std::to_string(start.gang_rank);
  environment[kGangSizeVariable] = std::to_string(spec.pipeline ? start.peers.size() : spec.gang);
  environment[kGangPeersVariable] = peer_list(start);
  environment[kGangPortVariable] = std::to_string(gang_port(start));
  environment[kGangSecretVariable] = start.gang_secret;
  add_devices(environment, start, around.worker);
  environment[kProgressVariable] = std::to_string(kProgressDescriptor);
  if (around.slowdown != 1) environment[kTaskSlowdownVariable] = format("{}", around.slowdown);
  if (spec.pipeline) {
    environment[kPipelineVariable] = pipeline_text(*spec.pipeline);
    environment[kPipelineGraphVariable] = spec.pipeline->graph;
    environment[kPipelinePlanVariable] = start.plan;
    if (around.tls) environment[kPipelineTlsVariable] = tls_text(*around.tls);
  }
  environment[kAttemptMark] = around.worker.identity + "/" + to_string(start.id);
  RunRecord run = limits_of(spec, around);
  if (spec.pipeline && spec.pipeline->infer) {
    std::ranges::copy(stage_files(start), std::back_inserter(run.artifacts.patterns));
  }
  run.attempt = to_string(start.id);
  run.command = spec.pipeline ? around.stage : spec.command.empty() ? around.trainer : spec.command;
  if (!spec.container.empty()) run.command = in_container(spec, environment);
  run.environment.assign(environment.begin(), environment.end());
  run.working_dir = spec.working_dir;
  if (!spec.files.empty()) run.work = kWorkFolder;
  if (account != nullptr) {
    run.user = account->credentials;
    if (!spec.files.empty() || spec.working_dir.empty()) run.work = folder;
  }
  run.note = start.user;
  return run;
}

AttemptId attempt_from(const std::string& name) {
  if (const std::size_t dot = name.find('.'); dot != name.npos) {
    const auto task = number_from<std::uint64_t>(name.substr(0, dot));
    const auto attempt = number_from<std::uint32_t>(name.substr(dot + 1));
    if (task && attempt) return {{*task}, {*attempt}};
  }
  fail(ErrorCode::kDataLoss, "worker: '{}' does not name an attempt", name);
}

EndResult end_result(const EndRecord& end) {
  EndResult result{EndKind::kLost, end.exit_code, end.signal,
                   end.message,    end.cpu_ms,    end.peak_memory_kb};
  const auto begin_with = [&result](const std::string& text) {
    result.message = text + (result.message.empty() ? "" : "; ") + result.message;
  };
  switch (end.kind) {
    case RunEnd::kExited:
      result.kind = end.exit_code == 0 ? EndKind::kSucceeded : EndKind::kFailed;
      if (end.exit_code != 0) begin_with(format("exit code {}", end.exit_code));
      break;
    case RunEnd::kSignalled:
      result.kind = EndKind::kSignalled;
      begin_with(format("killed by signal {} ({})", end.signal, ::strsignal(end.signal)));
      break;
    case RunEnd::kTimedOut: result.kind = EndKind::kTimedOut; break;
    case RunEnd::kStopped: result.kind = EndKind::kStopped; break;
    case RunEnd::kLeaseLost: result.kind = EndKind::kLeaseLost; break;
    case RunEnd::kLost: break;
    case RunEnd::kRefused: result.kind = EndKind::kRefused; break;
    case RunEnd::kUnable: result.kind = EndKind::kUnable; break;
  }
  return result;
}

RunEnd run_end(EndKind kind) {
  return kind == EndKind::kLeaseLost ? RunEnd::kLeaseLost : RunEnd::kStopped;
}

}  // namespace harmonics::inline in_worker
