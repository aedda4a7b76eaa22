#include "host_script.h"

#include <harmonics/base/error.h>

#include "foreign_program.h"

namespace harmonics::inline in_cluster_program {
namespace {

constexpr const char* kEndOfFile = "HARMONICS-END-OF-FILE";

/// A worker holds the lock of its folder as long as it lives, whoever started it.
constexpr const char* kHead = R"sh(set -u
umask 077
state=${XDG_STATE_HOME:-$HOME/.local/state}/harmonics
up=$state/up
mkdir -p "$up/$worker" || exit 1
say() { echo "harmonics-up $1 $2"; exit 0; }
runs() { [ -e "$state/workers/id-$worker/worker.lock" ] && ! flock -n "$state/workers/id-$worker/worker.lock" true; }
pid=$(cat "$up/$worker.pid" 2>/dev/null || echo 0)
ours() { tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -e "--id $worker "; }
put() {
  cat >"$up/$worker/$1.new"
  if cmp -s "$up/$worker/$1.new" "$up/$worker/$1"; then rm -f "$up/$worker/$1.new"; else mv "$up/$worker/$1.new" "$up/$worker/$1"; fi
}
command -v flock >/dev/null || { echo "there is no flock here (Debian: util-linux)" >&2; exit 1; }
exec 9>"$up/$worker.lock"
flock -w 20 9 || { echo "another 'harmonics up' is at work here" >&2; exit 1; }
)sh";

constexpr const char* kStatus = R"sh(runs || say absent 0
ours || say foreign 0
say running "$pid"
)sh";

constexpr const char* kDown = R"sh(runs || say absent 0
ours || say foreign 0
kill "$pid"
tries=0
while runs; do
  tries=$((tries + 1))
  [ $tries -lt 300 ] || { echo "it does not end" >&2; say failed "$pid"; }
  sleep 0.1
done
rm -f "$up/$worker.pid"
say stopped "$pid"
)sh";

constexpr const char* kUp = R"sh(if runs; then
  ours || say foreign 0
  [ "$(cat "$up/$worker.command" 2>/dev/null)" = "$program $words" ] || say differs "$pid"
  say running "$pid"
fi
command -v "$program" >/dev/null || say missing 0
printf '%s\n' "$program $words" >"$up/$worker.command"
eval "setsid \"\$program\" $words >\"\$up/\$worker.log\" 2>&1 </dev/null 9>&- &"
pid=$!
echo "$pid" >"$up/$worker.pid"
tries=0
until grep -q '^worker for ' "$up/$worker.log"; do
  tries=$((tries + 1))
  kill -0 "$pid" 2>/dev/null && [ $tries -lt 100 ] || { tail -n 5 "$up/$worker.log" >&2; say failed "$pid"; }
  sleep 0.1
done
say started "$pid"
)sh";

std::string placed(const HostFile& file) {
  if (file.text.find(kEndOfFile) != file.text.npos || file.text.find('\0') != file.text.npos) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no file of text that can be sent", file.name);
  }
  return format("put {} <<'{}'\n{}{}{}\n", shell_quoted(file.name), kEndOfFile, file.text,
                file.text.ends_with('\n') ? "" : "\n", kEndOfFile);
}

/// The flags as the shell there is to read them.
std::string words_of(const HostOrder& order) {
  constexpr std::string_view kFolder = "@FOLDER@";
  std::string text = "worker --id " + shell_quoted(order.worker);
  for (const std::string& flag : order.flags) {
    if (!flag.starts_with(kFolder)) {
      text += " " + shell_quoted(flag);
      continue;
    }
    text += " \"$up/$worker\"" +
            (flag.size() > kFolder.size() ? shell_quoted(flag.substr(kFolder.size())) : "");
  }
  return text + " ";
}

}  // namespace

std::string host_script(const HostOrder& order) {
  std::string text = format("worker={}\nprogram={}\nwords={}\n", shell_quoted(order.worker),
                            shell_quoted(order.program), shell_quoted(words_of(order)));
  text += kHead;
  if (order.wish == UpWish::kUp) {
    for (const HostFile& file : order.files) text += placed(file);
  }
  text += order.wish == UpWish::kUp ? kUp : order.wish == UpWish::kDown ? kDown : kStatus;
  return text;
}

std::pair<std::string, std::string> told_state(const std::string& output) {
  constexpr std::string_view kMark = "harmonics-up ";
  std::size_t begin = output.rfind("\n" + std::string(kMark));
  begin = begin == output.npos ? (output.starts_with(kMark) ? 0 : output.npos) : begin + 1;
  if (begin == output.npos) return {};
  const std::string line = output.substr(begin, output.find('\n', begin) - begin);
  const std::size_t space = line.find(' ', kMark.size());
  if (space == line.npos) return {};
  return {line.substr(kMark.size(), space - kMark.size()), line.substr(space + 1)};
}

}  // namespace harmonics::inline in_cluster_program
