#include "stage_task.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>
#include <harmonics/clients/weights_file.h>
#include <harmonics/cluster/pipeline.h>
#include <harmonics/cluster/task_environment.h>
#include <harmonics/custody/digest.h>
#include <harmonics/data/kept_rows.h>
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
       "this machine does not see the server's folder '{}', where the checkpoint, or the rows that "
       "have come out, must lie so that they survive any worker: submit with --checkpoint-dir "
       "FOLDER, a folder that the server and "
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

bool is_inference(const Json& pipeline) {
  const Json* infer = pipeline.find("infer");
  return infer != nullptr && infer->as_bool();
}

/// The cut with what was planned for each stage, as `harmonics plan --output json` says it.
std::string cut_report(const Json& plan) {
  Json stages = Json::array();
  for (const Json& stage : plan.at("stages").as_array()) {
    Json one;
    one.set("hosts", Json(Json::Array{stage.at("worker")})).set("layers", stage.at("layers"));
    stages.push(std::move(one.set("period_s", stage.at("period_s"))));
  }
  Json report;
  report.set("model", plan.at("graph")).set("batch_size", plan.at("micro_batch"));
  return report.set("stages", std::move(stages)).dump();
}

/// Rows of one run are computed with one set of weights, whoever computes them.
void check_weights(const fs::path& file, const std::string& digest) {
  if (weights_file_digest(file) == digest) return;
  fail(ErrorCode::kFailedPrecondition,
       "'{}' on this machine does not hold the weights that were submitted: put the same file "
       "there, or submit again",
       file.string());
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
      "--mode",       is_inference(pipeline) ? "inference" : "training",
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

namespace {

void add_training(std::vector<std::string>& words, const StageOrders& orders, const Json& pipeline,
                  const Json& plan) {
  const fs::path folder = plan.at("access").at("folder").as_string();
  const fs::path checkpoint = folder / "checkpoint";
  words.insert(words.end(), {"--checkpoint", checkpoint.string(), "--resume", "--whole-digest",
                             "--checkpoint-every",
                             std::to_string(pipeline.at("checkpoint_every").as_integer())});
  if (!pipeline.at("secure").as_bool()) return;
  // A chain belongs to a plan: with the same stages on the same workers it goes on.
  const std::string digest = digest_text(sha256(bytes_of(plan.at("plan").as_string())));
  const std::string name = format("{}-{}.chain", digest.substr(0, kChainMarkLetters), orders.rank);
  words.insert(words.end(), {"--secure", "--proof", (folder / name).string()});
}

/// The cut and what it cuts.
struct CutModel {
  const Json& plan;
  const std::vector<HarmonicGraph>& parts;
};

void add_inference(std::vector<std::string>& words, const StageOrders& orders, const Json& pipeline,
                   const CutModel& cut) {
  const fs::path folder = cut.plan.at("access").at("folder").as_string();
  const std::string weights = pipeline.at("weights").as_string();
  check_weights(weights, pipeline.at("weights_digest").as_string());
  // All stages look before any of them writes, since none does before it has met the others.
  std::int64_t kept = kMaxKeptBatches;
  for (const auto& [name, output] : pipeline.at("out").as_object()) {
    kept = std::min(kept, kept_batches(folder / "results", name));
  }
  words.insert(words.end(), {"--infer", "--weights", weights, "--delivered", std::to_string(kept)});
  bool writes = false;
  for (const auto& [name, output] : pipeline.at("out").as_object()) {
    if (!leaves(cut.parts[orders.rank], name)) continue;
    words.insert(words.end(), {"--out", format("{}={}", name, output.as_string())});
    fs::create_directories((orders.scratch / output_file(output.as_string())).parent_path());
    writes = true;
  }
  if (writes) words.insert(words.end(), {"--kept", (folder / "results").string()});
  if (!pipeline.at("secure").as_bool()) return;
  // What an attempt computes is signed by itself.
  const std::string name = format("{}-{}.chain", orders.run, orders.rank);
  words.insert(words.end(), {"--secure", "--proof", (folder / name).string()});
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
  write_text_file(cut, is_inference(pipeline) ? cut_report(plan) : plan.at("plan").as_string());
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
  words.insert(words.end(),
               {"--run", orders.run, "--restarts", "0", "--first-contact", kFirstContactSeconds,
                "--deadline", kDeadlineSeconds, "--output", "json"});
  if (is_inference(pipeline)) {
    add_inference(words, orders, pipeline, {plan, parts});
  } else {
    add_training(words, orders, pipeline, plan);
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
