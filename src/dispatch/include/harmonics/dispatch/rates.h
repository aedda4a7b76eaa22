// What was learned about how long a device takes for a model, and the file that keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace harmonics::inline in_dispatch {

/// A sub-batch of n rows takes latency_s + n * row_s. Fitted while a dispatcher runs: the rate
/// follows the last few observations, the latency, a property of device and model, many of them.
/// One thread.
class RateModel {
 public:
  RateModel() = default;
  /// Starts from what an earlier process learned.
  RateModel(double latency_s, double row_s);

  /// `seconds` is how long the device was busy with these rows, `span_s` the time from their start
  /// to their end, which is longer where sub-batches overlap.
  void observe(std::size_t rows, double seconds, double span_s);
  void observe(std::size_t rows, double seconds) { observe(rows, seconds, seconds); }
  [[nodiscard]] bool known() const { return known_; }
  /// True once sub-batches of different sizes told latency and rate apart.
  [[nodiscard]] bool separated() const { return separated_; }
  [[nodiscard]] double latency_s() const { return latency_s_; }
  [[nodiscard]] double row_s() const { return row_s_; }
  /// By which share observations missed what was expected of them lately.
  [[nodiscard]] double deviation() const { return deviation_; }
  /// Trusts the device half way again.
  void forgive() { deviation_ /= 2; }
  [[nodiscard]] double seconds(std::size_t rows) const {
    return rows == 0 ? 0 : latency_s_ + row_s_ * static_cast<double>(rows);
  }

 private:
  // Decaying sums over observations.
  struct Sums {
    double weight = 0, rows = 0, rows_squared = 0, seconds = 0, rows_seconds = 0;
    void add(double decay, double n, double s);
  };
  void fit();

  bool known_ = false;
  bool separated_ = false;
  double latency_s_ = 0;
  double row_s_ = 0;
  Sums recent_;
  Sums long_;
  double shortest_s_ = 0;
  double deviation_ = 0;
};

/// One line of the file.
struct LearnedRate {
  double latency_s = 0;
  double row_s = 0;
  /// The most rows that fit the device's memory; 0: no limit was met.
  std::size_t ceiling_rows = 0;
  bool operator==(const LearnedRate&) const = default;
};

/// By model and device name.
using LearnedRates = std::map<std::pair<std::string, std::string>, LearnedRate>;

/// Entries that a file may have; the ones beyond are refused on reading, not written on saving.
inline constexpr std::size_t kMaxLearnedRates = 4096;

/// JSON in both directions; a text that is not one of ours is an Error (kInvalidArgument) that says
/// what is wrong. `name` is the file's, for that message.
[[nodiscard]] LearnedRates parse_rates(std::string_view text, std::string_view name);
[[nodiscard]] std::string rates_text(const LearnedRates& rates);

/// The rates in a file; none when there is no file. A broken one is a warning and none.
[[nodiscard]] LearnedRates load_rates(const std::filesystem::path& file);
/// Adds to what the file holds (folders are made), whole or not at all.
void save_rates(const std::filesystem::path& file, const LearnedRates& rates);

/// $XDG_STATE_HOME/harmonics/dispatch-rates.json, by default below ~/.local/state.
[[nodiscard]] std::filesystem::path default_rates_file();

}  // namespace harmonics::inline in_dispatch
