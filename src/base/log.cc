#include <harmonics/base/log.h>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

#include <harmonics/base/environment.h>
#include <harmonics/base/escaped.h>

namespace harmonics::inline in_base {
namespace {

constexpr const char* kLevelNames[] = {"trace", "debug", "info", "warn", "error", "off"};

LogLevel level_from_environment() {
  const std::string wanted = environment_text("HARMONICS_LOG");
  for (int i = 0; i < 6; ++i) {
    if (wanted == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return LogLevel::kWarn;
}

std::atomic<LogLevel> current_level{level_from_environment()};

std::mutex capture_mutex;
std::unique_ptr<std::vector<std::string>> captured;  // guarded by capture_mutex
LogLevel level_before_capture = LogLevel::kWarn;     // guarded by capture_mutex

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>(
        "harmonics", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%l%$ %v");
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::warn);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) { current_level = level; }
LogLevel log_level() { return current_level; }

// An event is one line, whatever it quotes.
void log_line(LogLevel level, std::string_view module, std::string_view text) {
  const std::string line = escaped(text);
  {
    const std::lock_guard lock(capture_mutex);
    if (captured) {
      captured->push_back(format("{} {}: {}", kLevelNames[static_cast<int>(level)], module, line));
      return;
    }
  }
  if (level < log_level() || level == LogLevel::kOff) return;
  logger().log(static_cast<spdlog::level::level_enum>(level), "{}: {}", module, line);
}

LogCapture::LogCapture() {
  const std::lock_guard lock(capture_mutex);
  captured = std::make_unique<std::vector<std::string>>();
  level_before_capture = current_level;
  current_level = LogLevel::kTrace;
}

LogCapture::~LogCapture() {
  const std::lock_guard lock(capture_mutex);
  captured.reset();
  current_level = level_before_capture;
}

std::vector<std::string> LogCapture::lines() const {
  const std::lock_guard lock(capture_mutex);
  return *captured;
}

}  // namespace harmonics::inline in_base
