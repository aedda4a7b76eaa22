// A file system in memory that forgets what was not synced: what kill -9 cannot show.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/base/random.h>

namespace harmonics::inline in_store {

/// The files behind the SQLite layer "lossy". One at a time, one thread.
class LossyDisk {
 public:
  explicit LossyDisk(std::uint64_t seed);
  ~LossyDisk();
  LossyDisk(const LossyDisk&) = delete;
  LossyDisk& operator=(const LossyDisk&) = delete;

  /// After so many further writes and syncs every operation fails, until `lose_power`.
  void fail_after(std::uint64_t operations) { left_ = operations; }
  /// What was synced stays. Of the rest each write stays, is torn or is gone, by chance.
  void lose_power();
  /// Syncs do nothing from now on: a disk that lies, to see that tests notice.
  void ignore_syncs() { lies_ = true; }

  struct Change {
    std::uint64_t offset = 0;
    std::string bytes;
    bool truncate = false;
  };
  struct File {
    std::string synced;            ///< What a power cut leaves for sure.
    std::string now;               ///< What a read sees.
    std::vector<Change> unsynced;  ///< From the one to the other.
  };
  static void apply(std::string& content, const Change& change);
  /// False when the disk has failed.
  bool step();
  bool sync(File& file);

  std::map<std::string, std::shared_ptr<File>> files;

 private:
  Random random_;
  std::uint64_t left_ = ~std::uint64_t{0};
  bool lies_ = false;
};

}  // namespace harmonics::inline in_store
