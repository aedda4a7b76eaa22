#include "plan_words.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_server {
namespace {

constexpr double kMilliseconds = 1e3;

std::string stage_words(const Json& stage) {
  const std::string& from = stage.at("from").as_string();
  const std::string& to = stage.at("to").as_string();
  return format("{} has {} ({:.3f} ms)", stage.at("worker").as_string(),
                from == to ? from : format("{} to {}", from, to),
                stage.at("compute_s").as_number() * kMilliseconds);
}

/// Plans of earlier versions do not name the basis.
const char* basis_words(const Json& worker) {
  const Json* basis = worker.find("basis");
  if (basis != nullptr && basis->as_string() == "training") return "measured in training";
  if (basis != nullptr && basis->as_string() == "run") return "measured as it ran";
  return worker.at("measured").as_bool() ? "measured" : "estimated";
}

std::string worker_words(const Json& worker) {
  return format("{} ({:.3f} ms for the whole graph, {})", worker.at("worker").as_string(),
                worker.at("whole_graph_s").as_number() * kMilliseconds, basis_words(worker));
}

/// The period that a stage tells; 0 when it tells none.
double told_period_s(const std::string& line) {
  if (line.find("\"period_s\"") == line.npos) return 0;
  try {
    return Json::parse(line, "progress").at("period_s").as_number();
  } catch (const Error&) {
    return 0;
  }
}

/// What stages measure beside what was planned for each; empty where none tells it.
std::string measured_sentence(const Json::Array& stages, const std::vector<std::string>& progress) {
  std::string told;
  for (std::size_t k = 0; k < std::min(stages.size(), progress.size()); ++k) {
    const double period = told_period_s(progress[k]);
    const Json* planned = stages[k].find("period_s");
    if (period <= 0 || planned == nullptr) continue;
    add_item(told, format("{} {:.3f} ms (planned {:.3f} ms)", stages[k].at("worker").as_string(),
                          period * kMilliseconds, planned->as_number() * kMilliseconds));
  }
  return told.empty() ? "" : format(" Measured periods: {}.", told);
}

/// Whether measurements or estimates are behind it all.
std::string basis_sentence(const Json::Array& workers) {
  std::size_t measured = 0;
  for (const Json& worker : workers) measured += worker.at("measured").as_bool() ? 1 : 0;
  if (measured == workers.size()) return " The plan rests on measurements.";
  if (measured == 0) return " The plan rests on estimates: no worker has measured the model yet.";
  return format(
      " The plan rests on measurements of {} of {} workers, and on estimates scaled by them.",
      measured, workers.size());
}

bool infers(const Json& plan) {
  const Json* infer = plan.find("infer");
  return infer != nullptr && infer->as_bool();
}

/// What the stages leave behind: results, or a checkpoint.
const char* harvest_name(const Json& plan) { return infers(plan) ? "results" : "checkpoint"; }

/// Where the stages leave their weights, or the rows that come out; a plan that only measures has
/// none.
std::string harvest_of(const Json& plan) {
  const Json* access = plan.find("access");
  const Json* folder = access == nullptr ? nullptr : access->find("folder");
  if (folder == nullptr || plan.find("measure") != nullptr) return {};
  return (std::filesystem::path(folder->as_string()) / harvest_name(plan)).string();
}

}  // namespace

std::string public_plan(const std::string& plan) {
  if (plan.empty()) return {};
  try {
    const Json whole = Json::parse(plan, "plan");
    Json::Object open;
    for (const auto& [key, value] : whole.as_object()) {
      if (key != "access") open.emplace_back(key, value);
    }
    if (const std::string folder = harvest_of(whole); !folder.empty()) {
      open.emplace_back(harvest_name(whole), folder);
    }
    return Json(std::move(open)).dump();
  } catch (const Error&) {
    return {};
  }
}

std::string explain_plan(const std::string& plan, const std::vector<std::string>& progress) {
  const Json json = Json::parse(plan, "plan");
  if (json.find("measure") != nullptr) return "It measures the model on workers before its plan.";
  const Json::Array& stages = json.at("stages").as_array();
  std::string listed_stages;
  std::set<std::string> used;
  double slowest = 0;
  std::string bottleneck;
  for (const Json& stage : stages) {
    add_item(listed_stages, stage_words(stage));
    used.insert(stage.at("worker").as_string());
    if (stage.at("compute_s").as_number() <= slowest) continue;
    slowest = stage.at("compute_s").as_number();
    bottleneck = stage.at("worker").as_string();
  }
  const double period = json.at("period_s").as_number();
  std::string text = format("Its {} {}: {}", stages.size(), stages.size() == 1 ? "stage" : "stages",
                            listed_stages);
  text += format(". A {} of {} leaves every {:.3f} ms, bound by {}.",
                 infers(json) ? "batch" : "micro-batch", json.at("micro_batch").as_integer(),
                 period * kMilliseconds,
                 slowest < period ? "the network" : format("what {} computes", bottleneck));
  text += measured_sentence(stages, progress);
  std::string planned_with;
  std::string left_out;
  for (const Json& worker : json.at("workers").as_array()) {
    const bool is_used = used.contains(worker.at("worker").as_string());
    add_item(is_used ? planned_with : left_out, worker_words(worker));
  }
  text += format(" It was planned with {}", planned_with);
  text += left_out.empty() ? "." : format("; {} would not have made it faster.", left_out);
  text += basis_sentence(json.at("workers").as_array());
  const Json* tls = json.find("tls");
  if (tls != nullptr && tls->as_bool()) text += " Its stages speak TLS.";
  const std::string folder = harvest_of(json);
  if (folder.empty()) return text;
  return text + (infers(json) ? format(" Rows that came out are kept in {}.", folder)
                              : format(" Its checkpoint is {}.", folder));
}

}  // namespace harmonics::inline in_server
