#include <harmonics/dispatch/rates.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/log.h>

namespace harmonics {
namespace {

constexpr double kDecay = 0.8;
/// Sizes must spread by this share of their mean before latency and rate are told apart.
constexpr double kLeastSpread = 0.1;
/// How fast the shortest time ever seen is forgotten.
constexpr double kForget = 1.02;
constexpr double kLeastRowSeconds = 1e-15;
constexpr std::size_t kMaxRatesFile = 4 << 20;
constexpr int kVersion = 1;

double finite_at_least(const Json& json, double least, std::string_view name) {
  const double value = json.as_number();
  if (!std::isfinite(value) || value < least) {
    fail(ErrorCode::kInvalidArgument, "{}: {} is no time", name, value);
  }
  return value;
}

}  // namespace

RateModel::RateModel(double latency_s, double row_s)
    : known_(true), separated_(true), latency_s_(latency_s), row_s_(row_s) {}

void RateModel::observe(std::size_t rows, double seconds) {
  const auto n = static_cast<double>(rows);
  shortest_s_ = w_ == 0 ? seconds : std::min(shortest_s_ * kForget, seconds);
  w_ = w_ * kDecay + 1;
  n_ = n_ * kDecay + n;
  nn_ = nn_ * kDecay + n * n;
  t_ = t_ * kDecay + seconds;
  nt_ = nt_ * kDecay + n * seconds;
  fit();
}

void RateModel::fit() {
  const double rows = n_ / w_;
  const double time = t_ / w_;
  const double variance = nn_ / w_ - rows * rows;
  const double slope = variance > 0 ? (nt_ / w_ - rows * time) / variance : 0;
  if (std::sqrt(std::max(0.0, variance)) > kLeastSpread * rows && slope > 0) {
    // No sub-batch is done before its latency is over, whatever a few late ones suggest.
    latency_s_ = std::clamp(time - slope * rows, 0.0, 0.99 * shortest_s_);
    row_s_ = (time - latency_s_) / rows;
    separated_ = true;
  } else {
    // Sizes alike: keep what is known of the latency, and put the rest on the rows.
    latency_s_ = std::min(latency_s_, 0.9 * time);
    row_s_ = (time - latency_s_) / rows;
  }
  row_s_ = std::max(row_s_, kLeastRowSeconds);
  known_ = true;
}

LearnedRates parse_rates(std::string_view text, std::string_view name) {
  const Json file = Json::parse(text, name);
  if (file.at("version").as_integer() != kVersion) {
    fail(ErrorCode::kInvalidArgument, "{}: version {} is not {}", name,
         file.at("version").as_integer(), kVersion);
  }
  const Json::Array& entries = file.at("rates").as_array();
  if (entries.size() > kMaxLearnedRates) {
    fail(ErrorCode::kInvalidArgument, "{}: {} entries, at most {} are possible", name,
         entries.size(), kMaxLearnedRates);
  }
  LearnedRates rates;
  for (const Json& entry : entries) {
    LearnedRate rate;
    rate.latency_s = finite_at_least(entry.at("latency_s"), 0, name);
    rate.row_s = finite_at_least(entry.at("row_s"), kLeastRowSeconds, name);
    const std::int64_t ceiling = entry.at("ceiling_rows").as_integer();
    if (ceiling < 0) fail(ErrorCode::kInvalidArgument, "{}: {} rows", name, ceiling);
    rate.ceiling_rows = static_cast<std::size_t>(ceiling);
    rates[{entry.at("model").as_string(), entry.at("device").as_string()}] = rate;
  }
  return rates;
}

std::string rates_text(const LearnedRates& rates) {
  Json entries = Json::array();
  std::size_t written = 0;
  for (const auto& [key, rate] : rates) {
    if (++written > kMaxLearnedRates) break;
    Json entry = Json::object();
    entry.set("model", key.first);
    entry.set("device", key.second);
    entry.set("latency_s", rate.latency_s);
    entry.set("row_s", rate.row_s);
    entry.set("ceiling_rows", static_cast<std::int64_t>(rate.ceiling_rows));
    entries.push(std::move(entry));
  }
  Json file = Json::object();
  file.set("version", kVersion);
  file.set("rates", std::move(entries));
  return file.dump(1) + "\n";
}

LearnedRates load_rates(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  try {
    return parse_rates(read_text_file(file, kMaxRatesFile), file.string());
  } catch (const Error& error) {
    log_warn("dispatch", "learned rates are not used, and learned anew: {}", error.what());
    return {};
  }
}

void save_rates(const std::filesystem::path& file, const LearnedRates& rates) {
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  LearnedRates all = load_rates(file);
  for (const auto& [key, rate] : rates) all[key] = rate;
  write_text_file(file, rates_text(all));
}

std::filesystem::path default_rates_file() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state != nullptr && *state != '\0') {
    folder = state;
  } else if (home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".local/state";
  } else {
    folder = std::filesystem::temp_directory_path();
  }
  return folder / "harmonics" / "dispatch-rates.json";
}

}  // namespace harmonics
