#include "plan_service.h"

#include <functional>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/plan/planner.h>
#include <harmonics/server/state_folder.h>

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

/// Questions that wait; the scheduler has no more than one for each pipeline, and each stage of one
/// that runs tells what it measured once.
constexpr std::size_t kMaxQuestions = 65'536;
constexpr std::uint32_t kStagePorts = kLastStagePort - kFirstStagePort + 1;

/// The file by which a stage knows that it sees the server's folder, and what is in it.
std::string mark_folder(const fs::path& folder) {
  const fs::path file = folder / "folder-mark";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) write_text_file(file, random_token());
  return read_text_file(file, 256);
}

void check_size(const std::string& plan) {
  if (plan.size() <= kMaxPlanBytes) return;
  fail(ErrorCode::kInvalidArgument, "the plan has {} bytes, more than {}", plan.size(),
       kMaxPlanBytes);
}

}  // namespace

PlanService::PlanService(Options options, std::function<void(PlanMade)> answer)
    : options_(std::move(options)),
      profiles_(options_.folder / "profiles"),
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
void PlanService::learn(StageMeasured measured) { questions_.push(std::move(measured)); }

void PlanService::run() {
  while (!questions_.closed()) {
    const auto next = questions_.pop(decltype(questions_)::kForever);
    if (!next) continue;
    if (const auto* measured = std::get_if<StageMeasured>(&*next)) {
      profiles_.keep(*measured);
    } else {
      answer_(make(std::get<AskPlan>(*next)));
    }
  }
}

PlanMade PlanService::make(const AskPlan& question) {
  PlanMade made;
  made.task = question.task;
  try {
    const PipelineSpec& spec = *question.submission->spec.pipeline;
    std::vector<StagePlace> places;
    std::vector<std::size_t> unmeasured;
    for (const PlanPlace& place : question.places) {
      places.push_back(profiles_.look_up(spec, place));
      if (!places.back().measured) unmeasured.push_back(places.size() - 1);
    }
    // A run is not stopped to measure: whether it should move is weighed with what is known.
    made.measures = spec.profile && !unmeasured.empty() && question.running.empty();
    Json access = access_of(question);
    PipelinePlan plan = made.measures ? measure_first(question, std::move(unmeasured), access)
                                      : plan_now(question, places, access);
    plan.text.set("access", std::move(access));
    made.plan = plan.text.dump();
    check_size(made.plan);
    for (const std::size_t i : plan.stages) made.stages.push_back(question.places[i].worker);
    if (!question.running.empty()) {
      made.running_period_s = period_with(spec, places, question.running).value_or(0);
    }
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

PipelinePlan PlanService::measure_first(const AskPlan& question,
                                        std::vector<std::size_t> unmeasured, Json& access) {
  const PipelineSpec& spec = *question.submission->spec.pipeline;
  std::vector<PlanPlace> places;
  for (const std::size_t i : unmeasured) places.push_back(question.places[i]);
  Json files = Json::array();
  for (const fs::path& file : profiles_.profile_files(spec, places)) {
    files.push(fs::absolute(file).string());
  }
  access.set("files", std::move(files));
  PipelinePlan plan;
  plan.stages = std::move(unmeasured);
  plan.text.set("measure", true).set("micro_batch", micro_batch_of(spec));
  return plan;
}

PipelinePlan PlanService::plan_now(const AskPlan& question, const std::vector<StagePlace>& places,
                                   Json& access) {
  PipelinePlan plan = plan_pipeline(*question.submission->spec.pipeline, places);
  Json ports = Json::array();
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    ports.push(std::int64_t{kFirstStagePort + next_port_++ % kStagePorts});
  }
  access.set("ports", std::move(ports));
  plan.text.set("tls", options_.tls);
  return plan;
}

fs::path PlanService::parent_of(const PipelineSpec& spec) const {
  return spec.checkpoint.empty() ? options_.folder : fs::path(spec.checkpoint);
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

}  // namespace harmonics::inline in_server
