// The PostgreSQL store with what only tests set.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <harmonics/store/store.h>

namespace harmonics::inline in_store {

struct PostgresOptions {
  /// A leader that has appended nothing for so long may be replaced.
  Nanoseconds lease = std::chrono::seconds(15);
  /// How long a database that went away is waited for.
  Nanoseconds patience = std::chrono::seconds(60);
};
[[nodiscard]] std::unique_ptr<Store> open_postgres_store_on(const std::string& url,
                                                            const PostgresOptions& options);

}  // namespace harmonics::inline in_store
