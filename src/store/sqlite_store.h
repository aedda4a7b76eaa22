// The SQLite store with what only tests set.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <harmonics/store/store.h>

namespace harmonics {

/// `vfs` names a registered SQLite file system layer; empty is the operating system's.
[[nodiscard]] std::unique_ptr<Store> open_sqlite_store_on(const std::filesystem::path& file,
                                                          const std::string& vfs);

}  // namespace harmonics
