#include "store_opening.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

/// How often a server that waits for the lead looks up.
constexpr std::chrono::seconds kStandbyPeriod(1);
/// A database that was there may be away that long while this server waits for the lead.
constexpr std::chrono::seconds kDatabasePatience(60);
constexpr std::chrono::milliseconds kAwayPause(200);
constexpr std::size_t kMaxMarkBytes = 4096;
constexpr std::string_view kMemory = "memory:";

std::string place_of(const ServerSettings& settings) {
  return settings.store.empty() ? (settings.state_dir / "cluster.sqlite").string() : settings.store;
}

bool is_shared(const std::string& place) { return place.starts_with("postgres"); }

/// Never with a password.
std::string name_of(const std::string& place) {
  return is_shared(place) ? "in PostgreSQL" : format("'{}'", place);
}

class Standby {
 public:
  explicit Standby(const ServerSettings& settings)
      : settings_(settings), place_(place_of(settings)), shared_(is_shared(place_)) {}

  /// Until this server leads.
  std::unique_ptr<Store> lead() {
    while (true) {
      if (std::unique_ptr<Store> store = open()) {
        try {
          store->lead(shared_ ? Nanoseconds(kStandbyPeriod) : settings_.store_patience);
          return store;
        } catch (const Error& error) {
          if (!shared_ || error.code() != ErrorCode::kUnavailable) throw;
        }
      }
      if (settings_.on_standby && !settings_.on_standby()) {
        fail(ErrorCode::kCancelled, "stopped while another server led");
      }
    }
  }

 private:
  /// Null while a database that was there before is away.
  std::unique_ptr<Store> open() {
    try {
      auto store = open_store(place_);
      if (away_) log_warn("server", "the database is back");
      seen_ = true;
      away_.reset();
      return store;
    } catch (const Error& error) {
      if (!seen_ || error.code() != ErrorCode::kUnavailable) throw;
      const auto now = std::chrono::steady_clock::now();
      if (!away_) {
        away_ = now;
        log_warn("server", "{}; trying again for up to {} s", error.what(),
                 kDatabasePatience.count());
      }
      if (now - *away_ > kDatabasePatience) throw;
      std::this_thread::sleep_for(kAwayPause);
      return nullptr;
    }
  }

  const ServerSettings& settings_;
  const std::string place_;
  const bool shared_;
  bool seen_ = false;
  std::optional<std::chrono::steady_clock::time_point> away_;
};

constexpr std::string_view kGoOn =
    "Nothing was changed. To go on, restore a copy of the store; or move the damaged one away and "
    "start with --new-store: then all tasks are unknown, and workers stop those that they run";

ClusterState read_whole(Store& store) {
  ClusterState state;
  std::uint64_t facts = 0;
  try {
    store.load([&](Fact&& fact) {
      state.apply(fact);
      ++facts;
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss) throw;
    fail(ErrorCode::kDataLoss,
         "{}. What comes before the damage is whole: {} facts, the last task that they know is {}; "
         "what came after it (later tasks, ends of earlier ones) is lost. {}",
         error.what(), facts, state.next_task().value - 1, kGoOn);
  }
  return state;
}

// Beside the store and not in it: it tells of a store that is gone.
fs::path mark_file(const ServerSettings& settings) { return settings.state_dir / "store.mark"; }

/// A URL may hold a password, so the place is told apart by its digest.
std::string digest_of(const std::string& place) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : place) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
  return format("{:016x}", hash);
}

struct Mark {
  std::string store;
  std::int64_t term = 0;
};

std::optional<Mark> read_mark(const ServerSettings& settings) {
  const fs::path file = mark_file(settings);
  if (!fs::exists(file)) return std::nullopt;
  const Json json = Json::parse(read_text_file(file, kMaxMarkBytes), file.string());
  return Mark{json.at("store").as_string(), json.at("term").as_integer()};
}

void check_mark(const ServerSettings& settings, const ClusterState& state) {
  const std::string place = place_of(settings);
  if (place == kMemory) return;
  const bool empty = state.term() == Term{};
  if (settings.new_store && !empty) {
    fail(ErrorCode::kFailedPrecondition,
         "--new-store is for a store that is to begin empty, but the one {} is in use: leave the "
         "flag out",
         name_of(place));
  }
  const std::optional<Mark> mark = read_mark(settings);
  if (!mark || settings.new_store) return;
  const bool same = mark->store == digest_of(place);
  if (same && empty) {
    fail(ErrorCode::kFailedPrecondition,
         "the store {} is empty, but the server of '{}' has used it before ({} starts): it was "
         "removed or emptied. Restore it; or start with --new-store: then all tasks are unknown, "
         "and workers stop those that they run",
         name_of(place), settings.state_dir.string(), mark->term);
  }
  if (!same && empty) {
    log_warn("server",
             "the store {} is new; the server of '{}' used another one before, whose tasks are "
             "unknown here: workers stop those that they run",
             name_of(place), settings.state_dir.string());
  }
  if (same && state.term().value < mark->term) {
    log_warn("server",
             "the store {} is older than what this server has written: a copy was restored, and "
             "what came after it is lost",
             name_of(place));
  }
}

}  // namespace

OpenedStore open_led_store(const ServerSettings& settings) {
  OpenedStore opened;
  try {
    opened.store = Standby(settings).lead();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss) throw;
    fail(ErrorCode::kDataLoss, "{}: nothing of it can be read. {}", error.what(), kGoOn);
  }
  opened.state = read_whole(*opened.store);
  check_mark(settings, opened.state);
  return opened;
}

void mark_store(const ServerSettings& settings, Term term) {
  const std::string place = place_of(settings);
  if (place == kMemory) return;
  write_text_file(
      mark_file(settings),
      Json().set("store", digest_of(place)).set("term", std::int64_t{term.value}).dump() + "\n");
}

}  // namespace harmonics::inline in_server
