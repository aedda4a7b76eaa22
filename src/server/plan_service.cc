#include "plan_service.h"

#include <functional>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/custody/digest.h>
#include <harmonics/plan/planner.h>
#include <harmonics/server/state_folder.h>

namespace harmonics {
namespace {

namespace fs = std::filesystem;

/// Questions that wait; the scheduler has no more than one for each pending pipeline.
constexpr std::size_t kMaxQuestions = 65'536;
constexpr std::size_t kMaxProfileBytes = std::size_t{16} << 20;
constexpr std::uint32_t kStagePorts = kLastStagePort - kFirstStagePort + 1;

/// The file by which a stage knows that it sees the server's folder, and what is in it.
std::string mark_folder(const fs::path& folder) {
  const fs::path file = folder / "folder-mark";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) write_text_file(file, random_token());
  return read_text_file(file, 256);
}

/// Which measurements can stand for each other: the same model and micro-batch on the same worker
/// with as many devices.
fs::path profile_file(const fs::path& profiles, const PipelineSpec& spec, const PlanPlace& place) {
  const std::string key =
      format("{}\n{}\n{}\n{}", spec.graph, micro_batch_of(spec), place.devices.size(),
             place.spec.identity.substr(0, place.spec.identity.find('@')));
  return profiles / (digest_text(sha256(bytes_of(key))) + ".json");
}

/// What `harmonics profile --output json` printed there; nothing when it has not run yet.
std::optional<MeasuredWorker> read_profile(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  try {
    const Json json = Json::parse(read_text_file(file, kMaxProfileBytes), file.string());
    MeasuredWorker worker;
    for (const Json& layer : json.at("profiles").as_array().at(0).at("layers").as_array()) {
      worker.unit_s.push_back(layer.at("time_s").as_number());
    }
    return worker;
  } catch (const std::exception& error) {
    log_warn("server", "the profile '{}' cannot be read and is not used: {}", file.string(),
             error.what());
    return std::nullopt;
  }
}

void check_size(const std::string& plan) {
  if (plan.size() <= kMaxPlanBytes) return;
  fail(ErrorCode::kInvalidArgument, "the plan has {} bytes, more than {}", plan.size(),
       kMaxPlanBytes);
}

}  // namespace

PlanService::PlanService(fs::path folder, std::function<void(PlanMade)> answer)
    : folder_(std::move(folder)),
      answer_(std::move(answer)),
      // Another place after each start, since runs of the last server may still go on.
      next_port_(
          static_cast<std::uint32_t>(std::hash<std::string>{}(random_token()) % kStagePorts)),
      questions_(kMaxQuestions) {
  thread_ = std::thread([this] { run(); });
}

PlanService::~PlanService() {
  questions_.close();
  thread_.join();
}

void PlanService::ask(AskPlan question) { questions_.push(std::move(question)); }

void PlanService::run() {
  while (!questions_.closed()) {
    const auto question = questions_.pop(Channel<AskPlan>::kForever);
    if (question) answer_(make(*question));
  }
}

PlanMade PlanService::make(const AskPlan& question) {
  PlanMade made;
  made.task = question.task;
  try {
    const PipelineSpec& spec = *question.submission->spec.pipeline;
    const fs::path profiles = parent_of(spec) / "profiles";
    std::vector<StagePlace> places;
    std::vector<std::size_t> unmeasured;
    for (const PlanPlace& place : question.places) {
      places.push_back({place, read_profile(profile_file(profiles, spec, place))});
      if (!places.back().measured) unmeasured.push_back(places.size() - 1);
    }
    made.measures = spec.profile && !unmeasured.empty();
    PipelinePlan plan;
    Json access = access_of(question);
    if (made.measures) {
      make_state_folder(profiles);
      Json files = Json::array();
      for (const std::size_t i : unmeasured) {
        files.push(fs::absolute(profile_file(profiles, spec, question.places[i])).string());
      }
      plan.stages = unmeasured;
      plan.text.set("measure", true).set("micro_batch", micro_batch_of(spec));
      access.set("files", std::move(files));
    } else {
      plan = plan_pipeline(spec, places);
      Json ports = Json::array();
      for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        ports.push(std::int64_t{kFirstStagePort + next_port_++ % kStagePorts});
      }
      access.set("ports", std::move(ports));
    }
    plan.text.set("access", std::move(access));
    made.plan = plan.text.dump();
    check_size(made.plan);
    for (const std::size_t i : plan.stages) made.stages.push_back(question.places[i].worker);
  } catch (const NoFeasiblePlan& reason) {
    made.problem = reason.what();
  } catch (const Error& error) {
    made.problem = error.what();
    made.hopeless = error.code() == ErrorCode::kInvalidArgument;
  } catch (const std::exception& error) {
    made.problem = error.what();
  }
  if (!made.problem.empty()) {
    made.stages.clear();
    log_warn("server", "pipeline {}: no plan: {}", question.task.value, made.problem);
  }
  return made;
}

fs::path PlanService::parent_of(const PipelineSpec& spec) const {
  return spec.checkpoint.empty() ? folder_ : fs::path(spec.checkpoint);
}

Json PlanService::access_of(const AskPlan& question) {
  const Submission& submission = *question.submission;
  // The time of submission tells it from a task of the same number on another cluster.
  const fs::path folder = parent_of(*submission.spec.pipeline) /
                          format("task-{}-{:x}", question.task.value, submission.at.count());
  make_state_folder(folder);
  Json access;
  access.set("token", random_token()).set("folder", fs::absolute(folder).string());
  return access.set("mark", mark_folder(folder));
}

}  // namespace harmonics
