#include <harmonics/plan/measured_run.h>

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_plan {
namespace {

[[noreturn]] void no_run(const std::string& name, std::string_view what) {
  fail(
      ErrorCode::kInvalidArgument,
      "{} is no report of a planned run ({}): 'harmonics run MODEL --plan plan.json --output json' "
      "writes one, with a plan that 'harmonics plan --output json' wrote",
      name, what);
}

double seconds_at(const Json& json, std::string_view key) {
  const double value = json.at(key).as_number();
  if (value >= 0) return value;
  fail(ErrorCode::kInvalidArgument, "'{}' is below 0", key);
}

std::vector<MeasuredLink> links_of(const Json& stage) {
  std::vector<MeasuredLink> links;
  for (const Json& link : stage.at("links").as_array()) {
    const std::string& boundary = link.at("boundary").as_string();
    const auto to =
        number_from<std::size_t>(std::string_view(boundary).substr(boundary.rfind('@') + 1));
    if (!to || *to >= kMaxMeasuredStages || links.size() == kMaxMeasuredLinks) {
      fail(ErrorCode::kInvalidArgument, "'{}' is no boundary between parts", boundary);
    }
    links.push_back({*to, seconds_at(link, "latency_s"), seconds_at(link, "bytes_per_s")});
  }
  return links;
}

void read_plan(const Json& plan, MeasuredStage& stage) {
  for (const Json& host : plan.at("hosts").as_array()) stage.hosts.push_back(host.as_string());
  const Json::Array& layers = plan.at("layers").as_array();
  if (layers.size() != 2 || stage.hosts.empty()) {
    fail(ErrorCode::kInvalidArgument, "a stage has hosts, and layers [first, last]");
  }
  const std::int64_t first = layers[0].as_integer();
  const std::int64_t last = layers[1].as_integer();
  if (first < 1 || last < first) fail(ErrorCode::kInvalidArgument, "layers count from 1 upwards");
  stage.first_layer = static_cast<std::size_t>(first);
  stage.last_layer = static_cast<std::size_t>(last);
  stage.planned.compute_s = seconds_at(plan, "compute_s");
  stage.planned.receive_s = seconds_at(plan, "receive_s");
  stage.planned.send_s = seconds_at(plan, "send_s");
  stage.planned.transfer_s = seconds_at(plan, "transfer_s");
  stage.planned.latency_s = seconds_at(plan, "latency_s");
  stage.planned.period_s = seconds_at(plan, "period_s");
}

MeasuredStage stage_of(const Json& json) {
  MeasuredStage stage;
  stage.part = json.at("part").as_string();
  stage.batches = json.at("batches").as_integer();
  const std::int64_t number = json.at("number").as_integer();
  if (stage.batches < 2 || number < 0) {
    fail(ErrorCode::kInvalidArgument, "part '{}' has finished {} batches, a period needs two",
         stage.part, stage.batches);
  }
  stage.number = static_cast<std::size_t>(number);
  const auto batches = static_cast<double>(stage.batches);
  stage.period_s = seconds_at(json, "period_s");
  stage.busy_s = seconds_at(json, "busy_s") / batches;
  stage.for_core_s = std::min(stage.busy_s, seconds_at(json, "for_core_s") / batches);
  stage.cpu_s = seconds_at(json, "cpu_s") / batches;
  stage.for_input_s = seconds_at(json, "for_input_s") / batches;
  stage.for_room_s = seconds_at(json, "for_room_s") / batches;
  stage.bytes_sent = static_cast<double>(json.at("bytes_sent").as_integer()) / batches;
  stage.threads = json.at("threads").as_integer();
  stage.machine = json.at("machine").as_string();
  stage.cores = seconds_at(json, "cores");
  stage.links = links_of(json);
  read_plan(json.at("plan"), stage);
  return stage;
}

void add_report(MeasuredRun& run, const Json& report, const std::string& name) {
  const Json* model = report.find("model");
  if (model == nullptr) no_run(name, "it names no planned model");
  MeasuredRun own{
      model->as_string(), report.at("dtype").as_string(), report.at("batch_size").as_integer(), {}};
  if (run.stages.empty()) {
    run.model = own.model;
    run.dtype = own.dtype;
    run.batch_size = own.batch_size;
  } else if (own.model != run.model || own.dtype != run.dtype || own.batch_size != run.batch_size) {
    fail(ErrorCode::kInvalidArgument,
         "{} is of a run of {} in batches of {}, the first one of {} "
         "in batches of {}",
         name, own.model, own.batch_size, run.model, run.batch_size);
  }
  for (const Json& stage : report.at("stages").as_array()) {
    if (run.stages.size() == kMaxMeasuredStages) no_run(name, "it has too many stages");
    if (stage.find("copy") != nullptr) {
      fail(ErrorCode::kUnimplemented,
           "{} is of a run whose part '{}' several hosts took turns at: such a run cannot be "
           "compared with its plan yet",
           name, stage.at("part").as_string());
    }
    run.stages.push_back(stage_of(stage));
  }
}

void check_stages(const MeasuredRun& run) {
  for (std::size_t k = 0; k < run.stages.size(); ++k) {
    const MeasuredStage& stage = run.stages[k];
    const bool follows = stage.number == k &&
                         stage.first_layer == (k == 0 ? 1 : run.stages[k - 1].last_layer + 1) &&
                         std::ranges::all_of(stage.links, [&](const MeasuredLink& link) {
                           return link.to > k && link.to < run.stages.size();
                         });
    if (follows) continue;
    fail(ErrorCode::kInvalidArgument,
         "stage {} is missing or there twice, or the reports are of several plans: give the "
         "reports of all stages of one run",
         stage.number == k ? k : std::min(k, stage.number));
  }
}

}  // namespace

double MeasuredStage::transfer_s() const {
  double slowest = 0;
  for (const MeasuredLink& link : links) {
    if (link.bytes_per_s > 0) slowest = std::max(slowest, 1 / link.bytes_per_s);
  }
  return bytes_sent * slowest;
}

MeasuredRun parse_measured_run(std::span<const RunText> texts) {
  MeasuredRun run;
  for (const RunText& one : texts) {
    try {
      add_report(run, Json::parse(one.text, one.name), one.name);
    } catch (const Error& error) {
      const std::string_view what = error.what();
      if (what.starts_with(one.name)) throw;
      no_run(one.name, what);
    }
  }
  if (run.stages.empty()) {
    fail(ErrorCode::kInvalidArgument, "there is no report of a run, or it has no stages");
  }
  std::ranges::sort(run.stages, {}, &MeasuredStage::number);
  check_stages(run);
  return run;
}

}  // namespace harmonics::inline in_plan
