#include <harmonics/base/check.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_base {
namespace {

std::atomic<bool>& abort_on_bugs() {
  static std::atomic<bool> abort{environment_text("HARMONICS_BUGS") == "abort"};
  return abort;
}

/// Without the folder that it was built in: "cluster/task_queue.cc".
std::string_view short_name(std::string_view file) {
  for (const std::string_view root : {"/src/", "/apps/", "/bindings/"}) {
    const std::size_t at = file.rfind(root);
    if (at != std::string_view::npos) return file.substr(at + root.size());
  }
  return file;
}

}  // namespace

void check_failed(const CheckPlace& place, const std::string& text) {
  const std::string message =
      format("{} ({}:{} expects: {}); this is a bug of Harmonics: please report these words", text,
             short_name(place.file), place.line, place.condition);
  const std::string_view name = short_name(place.file);
  log_line(LogLevel::kError, name.substr(0, name.find('/')), message);
  if (abort_on_bugs()) {
    std::fputs((message + "\n").c_str(), stderr);  // the log may be captured, or off
    std::abort();
  }
  throw Error(ErrorCode::kInternal, message);
}

bool set_abort_on_bugs(bool abort) { return abort_on_bugs().exchange(abort); }

}  // namespace harmonics::inline in_base
