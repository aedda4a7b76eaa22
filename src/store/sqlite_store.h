// The SQLite store with what only tests set.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <harmonics/store/store.h>

namespace harmonics::inline in_store {

struct SqliteOptions {
  /// Names a registered SQLite file system layer; empty is the operating system's.
  std::string vfs{};
  /// How long the write-ahead log gets before it is written into the database and begins anew.
  std::size_t log_bytes = std::size_t{4} << 20;
};
[[nodiscard]] std::unique_ptr<Store> open_sqlite_store_on(const std::filesystem::path& file,
                                                          const SqliteOptions& options);

}  // namespace harmonics::inline in_store
