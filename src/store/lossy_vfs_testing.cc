#include "lossy_vfs_testing.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>

namespace harmonics::inline in_store {
namespace {

LossyDisk* disk = nullptr;

/// What SQLite allocates for an open file.
struct OpenFile {
  sqlite3_file base;
  std::shared_ptr<LossyDisk::File>* file;
};

LossyDisk::File& file_of(sqlite3_file* handle) {
  return **reinterpret_cast<OpenFile*>(handle)->file;
}

int close_file(sqlite3_file* handle) {
  delete reinterpret_cast<OpenFile*>(handle)->file;
  return SQLITE_OK;
}

int read_file(sqlite3_file* handle, void* out, int count, sqlite3_int64 offset) {
  const std::string& content = file_of(handle).now;
  const auto start = std::min<std::size_t>(static_cast<std::size_t>(offset), content.size());
  const std::size_t there =
      std::min<std::size_t>(static_cast<std::size_t>(count), content.size() - start);
  std::memcpy(out, content.data() + start, there);
  std::memset(static_cast<char*>(out) + there, 0, static_cast<std::size_t>(count) - there);
  return there == static_cast<std::size_t>(count) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int change_file(sqlite3_file* handle, LossyDisk::Change change) {
  if (!disk->step()) return SQLITE_IOERR_WRITE;
  LossyDisk::File& file = file_of(handle);
  LossyDisk::apply(file.now, change);
  file.unsynced.push_back(std::move(change));
  return SQLITE_OK;
}

int write_file(sqlite3_file* handle, const void* data, int count, sqlite3_int64 offset) {
  return change_file(
      handle,
      {static_cast<std::uint64_t>(offset),
       std::string(static_cast<const char*>(data), static_cast<std::size_t>(count)), false});
}

int truncate_file(sqlite3_file* handle, sqlite3_int64 size) {
  return change_file(handle, {static_cast<std::uint64_t>(size), "", true});
}

int sync_file(sqlite3_file* handle, int) {
  return disk->sync(file_of(handle)) ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

int file_size(sqlite3_file* handle, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(file_of(handle).now.size());
  return SQLITE_OK;
}

int lock(sqlite3_file*, int) { return SQLITE_OK; }
int check_lock(sqlite3_file*, int* held) {
  *held = 0;
  return SQLITE_OK;
}
int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int sector_size(sqlite3_file*) { return 512; }
int characteristics(sqlite3_file*) { return 0; }

const sqlite3_io_methods kMethods = {
    1,       close_file, read_file,  write_file, truncate_file, sync_file,       file_size,
    lock,    lock,       check_lock, control,    sector_size,   characteristics, nullptr,
    nullptr, nullptr,    nullptr,    nullptr,    nullptr};

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* handle, int flags, int* out_flags) {
  const std::string key = name == nullptr ? "" : name;
  std::shared_ptr<LossyDisk::File>& file = disk->files[key];
  if (file == nullptr) file = std::make_shared<LossyDisk::File>();
  auto* open = reinterpret_cast<OpenFile*>(handle);
  open->base.pMethods = &kMethods;
  open->file = new std::shared_ptr<LossyDisk::File>(file);
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs*, const char* name, int) {
  if (!disk->step()) return SQLITE_IOERR_DELETE;
  return disk->files.erase(name) > 0 ? SQLITE_OK : SQLITE_IOERR_DELETE_NOENT;
}

int access_file(sqlite3_vfs*, const char* name, int, int* there) {
  *there = disk->files.contains(name) ? 1 : 0;
  return SQLITE_OK;
}

int full_path(sqlite3_vfs*, const char* name, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", name);
  return SQLITE_OK;
}

int randomness(sqlite3_vfs*, int count, char* out) {
  std::memset(out, 7, static_cast<std::size_t>(count));
  return count;
}
int pause(sqlite3_vfs*, int microseconds) { return microseconds; }
int current_time(sqlite3_vfs*, double* days) {
  *days = 2451545;
  return SQLITE_OK;
}

sqlite3_vfs layer = {1,         sizeof(OpenFile), 512,         nullptr,   "lossy",      nullptr,
                     open_file, delete_file,      access_file, full_path, nullptr,      nullptr,
                     nullptr,   nullptr,          randomness,  pause,     current_time, nullptr,
                     nullptr,   nullptr,          nullptr,     nullptr};

}  // namespace

LossyDisk::LossyDisk(std::uint64_t seed) : random_(seed, "lossy disk") {
  disk = this;
  sqlite3_vfs_register(&layer, 0);
}

LossyDisk::~LossyDisk() {
  sqlite3_vfs_unregister(&layer);
  disk = nullptr;
}

bool LossyDisk::step() {
  if (left_ == 0) return false;
  --left_;
  return true;
}

bool LossyDisk::sync(File& file) {
  if (!step()) return false;
  if (lies_) return true;
  file.synced = file.now;
  file.unsynced.clear();
  return true;
}

void LossyDisk::apply(std::string& content, const Change& change) {
  if (change.truncate) {
    content.resize(change.offset);
    return;
  }
  const std::size_t end = change.offset + change.bytes.size();
  if (content.size() < end) content.resize(end);
  content.replace(change.offset, change.bytes.size(), change.bytes);
}

void LossyDisk::lose_power() {
  for (auto& [name, file] : files) {
    std::string left = file->synced;
    for (Change& change : file->unsynced) {
      const std::uint64_t fate = random_.below(3);
      if (fate == 0) continue;
      if (fate == 1 && !change.truncate) {
        change.bytes.resize(random_.below(change.bytes.size() + 1));
      }
      apply(left, change);
    }
    *file = {left, left, {}};
  }
  left_ = ~std::uint64_t{0};
}

}  // namespace harmonics::inline in_store
