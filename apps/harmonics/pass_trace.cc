#include "pass_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>

namespace harmonics::inline in_front {
namespace {

constexpr double kMicroseconds = 1e6;

TracedPass pass_of(const Json& line) {
  TracedPass pass;
  const std::string& kind = line.at("pass").as_string();
  if (kind != "forward" && kind != "backward") {
    fail(ErrorCode::kInvalidArgument, "'{}' is neither forward nor backward", kind);
  }
  pass.forward = kind == "forward";
  pass.step = line.at("step").as_integer();
  pass.micro_batch = line.at("micro_batch").as_integer();
  pass.begin_s = line.at("begin").as_number();
  pass.end_s = line.at("end").as_number();
  if (!std::isfinite(pass.begin_s) || !std::isfinite(pass.end_s) || pass.end_s < pass.begin_s) {
    fail(ErrorCode::kInvalidArgument, "a pass that ends before it begins");
  }
  return pass;
}

TracedStage read_stage(const std::filesystem::path& file) {
  TracedStage stage{.name = file.stem().string(), .passes = {}};
  const std::string text = read_text_file(file, kMaxPassTraceBytes);
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    ++number;
    // A process that was killed leaves its last line unfinished.
    if (end == std::string::npos) break;
    try {
      stage.passes.push_back(pass_of(Json::parse(text.substr(at, end - at), "the line")));
    } catch (const Error& error) {
      fail(ErrorCode::kInvalidArgument, "{}:{}: this is no line of a trace of passes: {}",
           file.string(), number, error.what());
    }
    at = end + 1;
  }
  return stage;
}

/// "a-9" before "a-10".
bool before(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto key = [](const std::filesystem::path& path) {
    std::string out;
    std::string digits;
    const auto flush = [&] {
      if (!digits.empty()) out += std::string(20 - std::min<std::size_t>(20, digits.size()), '0');
      out += digits;
      digits.clear();
    };
    for (const char c : path.string()) {
      if (c >= '0' && c <= '9') {
        digits += c;
      } else {
        flush();
        out += c;
      }
    }
    flush();
    return out;
  };
  return key(a) < key(b);
}

std::vector<std::filesystem::path> files_of(const std::vector<std::filesystem::path>& named) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : named) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const std::size_t so_far = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
    }
    if (files.size() == so_far) {
      fail(ErrorCode::kNotFound,
           "'{}' holds no trace (*.jsonl); 'harmonics submit --pipeline … --trace' leaves them "
           "beside the checkpoint",
           path.string());
    }
  }
  std::ranges::sort(files, before);
  if (files.size() > kMaxTracedStages) {
    fail(ErrorCode::kInvalidArgument, "{} files are more than the {} stages of a trace",
         files.size(), kMaxTracedStages);
  }
  return files;
}

}  // namespace

std::vector<TracedStage> read_pass_traces(const std::vector<std::filesystem::path>& files) {
  std::vector<TracedStage> stages;
  bool any = false;
  for (const std::filesystem::path& file : files_of(files)) {
    stages.push_back(read_stage(file));
    any = any || !stages.back().passes.empty();
  }
  if (!any) fail(ErrorCode::kInvalidArgument, "these files hold no pass at all");
  return stages;
}

std::vector<TracedStage> steps_between(std::vector<TracedStage> stages, std::int64_t first,
                                       std::int64_t last) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  bool any = false;
  for (TracedStage& stage : stages) {
    for (const TracedPass& pass : stage.passes) {
      least = std::min(least, pass.step);
      most = std::max(most, pass.step);
    }
    std::erase_if(stage.passes,
                  [&](const TracedPass& pass) { return pass.step < first || pass.step > last; });
    any = any || !stage.passes.empty();
  }
  if (!any) {
    fail(ErrorCode::kInvalidArgument, "no pass of steps {} to {}: the trace has steps {} to {}",
         first, last, least, most);
  }
  return stages;
}

TraceSpan span_of(const std::vector<TracedStage>& stages) {
  TraceSpan span{.begin_s = std::numeric_limits<double>::max(), .end_s = 0};
  for (const TracedStage& stage : stages) {
    for (const TracedPass& pass : stage.passes) {
      span.begin_s = std::min(span.begin_s, pass.begin_s);
      span.end_s = std::max(span.end_s, pass.end_s);
    }
  }
  return span;
}

std::string perfetto_json(const std::vector<TracedStage>& stages) {
  const double begin_s = span_of(stages).begin_s;
  Json events = Json::array();
  for (std::size_t row = 0; row < stages.size(); ++row) {
    const auto thread = static_cast<std::int64_t>(row);
    Json name = Json::object();
    name.set("name", "thread_name").set("ph", "M").set("pid", 1).set("tid", thread);
    events.push(name.set("args", Json::object().set("name", stages[row].name)));
    for (const TracedPass& pass : stages[row].passes) {
      Json slice = Json::object();
      slice.set("name", pass.forward ? "forward" : "backward").set("cat", "pass").set("ph", "X");
      slice.set("pid", 1).set("tid", thread);
      slice.set("ts", (pass.begin_s - begin_s) * kMicroseconds);
      slice.set("dur", (pass.end_s - pass.begin_s) * kMicroseconds);
      Json about = Json::object();
      about.set("step", pass.step).set("micro_batch", pass.micro_batch);
      events.push(slice.set("args", std::move(about)));
    }
  }
  return Json::object().set("traceEvents", std::move(events)).dump() + "\n";
}

}  // namespace harmonics::inline in_front
