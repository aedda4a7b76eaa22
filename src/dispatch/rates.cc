#include <harmonics/dispatch/rates.h>

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/log.h>
#include <harmonics/base/user_folders.h>

namespace harmonics::inline in_dispatch {
namespace {

constexpr double kRateDecay = 0.8;
constexpr double kLatencyDecay = 0.97;
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

void RateModel::Sums::add(double decay, double n, double s) {
  weight = weight * decay + 1;
  rows = rows * decay + n;
  rows_squared = rows_squared * decay + n * n;
  seconds = seconds * decay + s;
  rows_seconds = rows_seconds * decay + n * s;
}

void RateModel::observe(std::size_t rows, double seconds, double span_s) {
  if (separated_) {
    const double missed = std::abs(seconds / this->seconds(rows) - 1);
    deviation_ += (1 - kRateDecay) * (std::min(1.0, missed) - deviation_);
  }
  shortest_s_ = recent_.weight == 0 ? span_s : std::min(shortest_s_ * kForget, span_s);
  recent_.add(kRateDecay, static_cast<double>(rows), seconds);
  long_.add(kLatencyDecay, static_cast<double>(rows), seconds);
  fit();
}

void RateModel::fit() {
  const double rows = long_.rows / long_.weight;
  const double time = long_.seconds / long_.weight;
  const double variance = long_.rows_squared / long_.weight - rows * rows;
  const double slope =
      variance > 0 ? (long_.rows_seconds / long_.weight - rows * time) / variance : 0;
  if (std::sqrt(std::max(0.0, variance)) > kLeastSpread * rows && slope > 0) {
    // No sub-batch is done before its latency is over, whatever a few late ones suggest.
    latency_s_ = std::clamp(time - slope * rows, 0.0, 0.99 * shortest_s_);
    separated_ = true;
  }
  // What is known of the latency holds while sizes are alike; the rest is put on the rows.
  const double recent_time = recent_.seconds / recent_.weight;
  latency_s_ = std::min(latency_s_, (separated_ ? 0.99 : 0.9) * recent_time);
  row_s_ = std::max((recent_time - latency_s_) * recent_.weight / recent_.rows, kLeastRowSeconds);
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
  const auto folder = user_state_folder();
  return (folder ? *folder : std::filesystem::temp_directory_path() / "harmonics") /
         "dispatch-rates.json";
}

}  // namespace harmonics::inline in_dispatch
