// Stands in for SQLite and PostgreSQL where they were left out of the build.
#include <harmonics/base/error.h>
#include <harmonics/store/store.h>

namespace harmonics::inline in_store {

std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& file) {
  fail(ErrorCode::kUnimplemented,
       "store '{}': SQLite is not built in; configure with HARMONICS_WITH_STORE=ON", file.string());
}

std::unique_ptr<Store> open_postgres_store(const std::string&) {
  fail(ErrorCode::kUnimplemented,
       "store: PostgreSQL is not built in; configure with HARMONICS_WITH_STORE=ON");
}

}  // namespace harmonics::inline in_store
