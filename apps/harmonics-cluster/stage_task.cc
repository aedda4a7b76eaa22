#include "stage_task.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>
#include <harmonics/cluster/task_environment.h>
#include <harmonics/custody/digest.h>
#include <harmonics/graph/harp.h>
#include <harmonics/options/command_line.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/programs/programs.h>
#include <harmonics/settings/train_settings.h>
#include <harmonics/transport/binding.h>

#include "built_in_task.h"

namespace harmonics::inline in_cluster_program {
namespace {

namespace fs = std::filesystem;

// How long one tensor may take to come. A stage that is gone is seen by the server, which stops the
// others; this is for what the server cannot see.
constexpr const char* kDeadlineSeconds = "600";
constexpr std::size_t kMaxMark = 256;
constexpr std::size_t kChainMarkLetters = 12;
constexpr std::size_t kMaxProfileBytes = std::size_t{16} << 20;

std::string ordered(const char* name) {
  if (auto value = environment_value(name)) return *std::move(value);
  fail(ErrorCode::kFailedPrecondition, "{} is not set: only a worker runs this", name);
}

std::size_t ordered_number(const char* name) {
  const std::string text = ordered(name);
  if (const auto value = number_from<std::size_t>(text)) return *value;
  fail(ErrorCode::kFailedPrecondition, "{} is '{}', which is no number: only a worker runs this",
       name, text);
}

void check_folder(const Json& access) {
  const fs::path folder = access.at("folder").as_string();
  std::string mark;
  try {
    mark = read_text_file(folder / "folder-mark", kMaxMark);
  } catch (const Error&) {
    // Said below.
  }
  if (mark == access.at("mark").as_string()) return;
  fail(ErrorCode::kFailedPrecondition,
       "this machine does not see the server's folder '{}', where the checkpoint must lie so that "
       "it survives any worker: submit with --checkpoint-dir FOLDER, a folder that the server and "
       "all workers share",
       folder.string());
}

bool leaves(const HarmonicGraph& part, const std::string& boundary) {
  return std::ranges::find(part.consumers(), boundary, &ConsumerNode::name) !=
         part.consumers().end();
}

/// A boundary meets where it enters.
void add_boundaries(std::vector<std::string>& words, const StageOrders& orders,
                    const std::vector<HarmonicGraph>& parts, const Json::Array& ports) {
  for (std::size_t to = 0; to < parts.size(); ++to) {
    for (const ProducerNode& node : parts[to].producers()) {
      if (!is_boundary_name(node.name)) continue;
      const bool enters = to == orders.rank;
      if (!enters && !leaves(parts[orders.rank], node.name)) continue;
      RemoteBinding binding;
      binding.name = node.name;
      binding.host = orders.hosts[to];
      binding.port = static_cast<std::uint16_t>(ports[to].as_integer());
      binding.listen = enters;
      words.insert(words.end(), {"--boundary", binding_url(binding)});
    }
  }
}

void add_settings(std::vector<std::string>& words, const Json& pipeline, bool has_devices) {
  for (const auto& [name, spec] : pipeline.at("bind").as_object()) {
    words.insert(words.end(), {"--bind", format("{}={}", name, spec.as_string())});
  }
  bool names_backend = false;
  for (const auto& [key, value] : pipeline.at("settings").as_object()) {
    const TrainSettingRule* rule = find_train_setting_rule(key);
    if (rule == nullptr) fail(ErrorCode::kInvalidArgument, "there is no setting '{}'", key);
    names_backend = names_backend || key == "backend";
    std::ranges::move(setting_words(*rule, value.as_string()), std::back_inserter(words));
  }
  if (has_devices && !names_backend) words.insert(words.end(), {"--backend", "auto"});
}

/// Where the cluster speaks TLS, so do the stages: none may go without.
void add_tls(std::vector<std::string>& words, const StageOrders& orders, const Json& plan) {
  const Json* wanted = plan.find("tls");
  if (wanted == nullptr || !wanted->as_bool()) return;
  if (orders.tls.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "the stages of this pipeline speak TLS, and this worker has no certificate: start it with "
         "--tls FOLDER, as 'harmonics server --init' made it");
  }
  const Json files = Json::parse(orders.tls, "TLS files");
  // The worker's own certificate is good towards the server alone; beside it lies what machines
  // show each other. Folders of earlier versions have one for both.
  const fs::path folder = fs::path(files.at("certificate").as_string()).parent_path();
  const bool peers = fs::exists(folder / "peer.pem");
  const std::pair<const char*, const char*> names[] = {
      {"authority", "peers.pem"}, {"certificate", "peer.pem"}, {"key", "peer.key"}};
  for (const auto& [file, peer] : names) {
    words.insert(words.end(), {format("--tls-{}", file),
                               peers ? (folder / peer).string() : files.at(file).as_string()});
  }
}

std::string setting(const Json& pipeline, std::string_view key, const char* otherwise) {
  const Json* value = pipeline.at("settings").find(key);
  return value == nullptr ? otherwise : value->as_string();
}

/// Measures the model and leaves what it found where the server looks for it.
int measure(const StageOrders& orders, const Json& plan) {
  const Json pipeline = Json::parse(orders.pipeline, "pipeline");
  const Json& access = plan.at("access");
  check_folder(access);
  const fs::path model = orders.scratch / "model.harp";
  write_text_file(model, orders.graph);
  std::vector<std::string> words = {
      "profile",      model.string(),
      "--mode",       "training",
      "--batch-size", std::to_string(plan.at("micro_batch").as_integer()),
      "--threads",    setting(pipeline, "threads", "0"),
      "--output",     "json"};
  const std::string backend = setting(pipeline, "backend", orders.has_devices ? "gpu" : "cpu");
  if (backend != "auto") words.insert(words.end(), {"--backend", backend});
  announce(words);
  const fs::path found = orders.scratch / "profile.json";
  const int code = run_program(kFrontProgram, words, found).value_or(kExitFailed);
  if (code != kExitDone) return code;
  write_text_file(access.at("files").as_array().at(orders.rank).as_string(),
                  read_text_file(found, kMaxProfileBytes));
  return kExitDone;
}

}  // namespace

std::vector<std::string> stage_words(const StageOrders& orders) {
  const Json pipeline = Json::parse(orders.pipeline, "pipeline");
  const Json plan = Json::parse(orders.plan, "plan");
  const Json& access = plan.at("access");
  check_folder(access);
  const fs::path model = orders.scratch / "model.harp";
  const fs::path cut = orders.scratch / "plan.yml";
  write_text_file(model, orders.graph);
  write_text_file(cut, plan.at("plan").as_string());
  const HarmonicGraph graph = parse_harp_document(orders.graph, model.string()).graph;
  const auto parts = partition_graph(graph, parse_plan(plan.at("plan").as_string(), cut.string()));
  const Json::Array& ports = access.at("ports").as_array();
  if (parts.size() != orders.hosts.size() || ports.size() != parts.size() ||
      orders.rank >= parts.size()) {
    fail(ErrorCode::kInvalidArgument, "a plan of {} stages with {} workers and {} ports",
         parts.size(), orders.hosts.size(), ports.size());
  }
  std::vector<std::string> words = {"stage",      model.string(), "--plan",
                                    cut.string(), "--part",       std::to_string(orders.rank)};
  add_settings(words, pipeline, orders.has_devices);
  add_boundaries(words, orders, parts, ports);
  add_tls(words, orders, plan);
  const fs::path folder = access.at("folder").as_string();
  const fs::path checkpoint = folder / "checkpoint";
  words.insert(words.end(), {"--run", orders.run, "--checkpoint", checkpoint.string(), "--resume",
                             "--whole-digest", "--checkpoint-every",
                             std::to_string(pipeline.at("checkpoint_every").as_integer()),
                             "--restarts", "0", "--first-contact", kFirstContactSeconds,
                             "--deadline", kDeadlineSeconds, "--output", "json"});
  if (pipeline.at("secure").as_bool()) {
    // A chain belongs to a plan: with the same stages on the same workers it goes on.
    const std::string digest = digest_text(sha256(bytes_of(plan.at("plan").as_string())));
    const std::string name =
        format("{}-{}.chain", digest.substr(0, kChainMarkLetters), orders.rank);
    words.insert(words.end(), {"--secure", "--proof", (folder / name).string()});
  }
  return words;
}

int stage_task() {
  StageOrders orders;
  orders.pipeline = ordered(kPipelineVariable);
  orders.graph = ordered(kPipelineGraphVariable);
  orders.plan = ordered(kPipelinePlanVariable);
  orders.hosts = gang_hosts(ordered(kGangPeersVariable));
  orders.rank = ordered_number(kGangRankVariable);
  orders.run = format("task-{}.{}", ordered(kTaskIdVariable), ordered(kAttemptVariable));
  orders.has_devices = !ordered(kTaskDevicesVariable).empty();
  orders.tls = environment_text(kPipelineTlsVariable);
  orders.scratch = fs::current_path();
  const Json plan = Json::parse(orders.plan, "plan");
  if (plan.find("measure") != nullptr) return measure(orders, plan);
  const std::vector<std::string> words = stage_words(orders);
  announce(words);
  const Json& access = plan.at("access");
  ::setenv(kTokenVariable, access.at("token").as_string().c_str(), 1);
  if (Json::parse(orders.pipeline, "pipeline").at("trace").as_bool()) {
    const fs::path trace = fs::path(access.at("folder").as_string()) /
                           format("passes-{}-{}.jsonl", orders.run, orders.rank);
    ::setenv(kTaskTraceVariable, trace.c_str(), 1);
  }
  for (const char* name :
       {kPipelineVariable, kPipelineGraphVariable, kPipelinePlanVariable, kPipelineTlsVariable}) {
    ::unsetenv(name);
  }
  become_program(kFrontProgram, words);
}

}  // namespace harmonics::inline in_cluster_program
