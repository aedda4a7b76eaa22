#include <harmonics/images/image_list.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_images {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTableBytes = std::size_t{1} << 30;

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

void add_file(std::vector<std::string>& files, const fs::path& file, const fs::path& folder) {
  if (files.size() == kMaxImages) {
    fail(ErrorCode::kResourceExhausted, "'{}' holds more than {} pictures: split it",
         folder.string(), kMaxImages);
  }
  files.push_back(file.string());
}

// Names of pictures below `folder`, sorted, relative to `root`.
std::vector<std::string> pictures_below(const fs::path& folder, const fs::path& root) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && is_picture(entry.path())) {
      add_file(files, entry.path().lexically_relative(root), root);
    }
  }
  std::ranges::sort(files);
  return files;
}

/// One line of a table.
struct Row {
  std::string file;
  std::optional<std::string> label;
};

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

std::string label_text(const Json& label) {
  return label.is_string() ? label.as_string() : std::to_string(label.as_integer());
}

Row json_row(std::string_view line, const std::string& place) {
  const Json json = Json::parse(line, place);
  Row row;
  for (const auto& [key, value] : json.as_object()) {
    if (key == "file" || key == "file_name") row.file = value.as_string();
    if (key == "label") row.label = label_text(value);
  }
  return row;
}

/// Reads a table line by line; the first of a CSV names its columns.
class Table {
 public:
  explicit Table(const ByteSource& source) : name_(source.path()) {
    if (source.size() > kMaxTableBytes) {
      fail(ErrorCode::kInvalidArgument, "'{}' has {} bytes: tables of at most {} are read", name_,
           source.size(), kMaxTableBytes);
    }
    text_.resize(static_cast<std::size_t>(source.size()));
    source.read_at(0, text_);
    json_ = !name_.ends_with(".csv");
    if (!json_) read_header();
  }

  std::optional<Row> next() {
    while (const std::optional<std::string_view> line = next_line()) {
      if (line->empty()) continue;
      Row row = json_ ? json_row(*line, place()) : csv_row(*line);
      if (row.file.empty()) fail(ErrorCode::kInvalidArgument, "{} names no file", place());
      return row;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string place() const { return format("'{}' line {}", name_, line_); }

 private:
  std::optional<std::string_view> next_line() {
    if (at_ >= text_.size()) return std::nullopt;
    std::string_view line = std::string_view(text_).substr(at_);
    line = line.substr(0, line.find('\n'));
    at_ += line.size() + 1;
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  void read_header() {
    const std::vector<std::string> names = cells_of(next_line().value_or(""));
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == "file" || names[i] == "file_name") file_ = i;
      if (names[i] == "label") label_ = i;
    }
    if (!file_) {
      fail(ErrorCode::kInvalidArgument, "{} names no column 'file': write file,label", place());
    }
  }

  Row csv_row(std::string_view line) const {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() <= std::max(*file_, label_.value_or(0))) {
      fail(ErrorCode::kInvalidArgument, "{} has {} columns: too few", place(), cells.size());
    }
    Row row{cells[*file_], std::nullopt};
    if (label_) row.label = cells[*label_];
    return row;
  }

  std::string name_, text_;
  bool json_ = true;
  std::size_t at_ = 0;
  std::int64_t line_ = 0;
  std::optional<std::size_t> file_, label_;
};

}  // namespace

ImageList ImageList::of_folder(const fs::path& place) {
  try {
    ImageList list;
    list.folder_ = place;
    if (fs::is_directory(place)) {
      list.read_folder();
    } else if (fs::is_regular_file(place)) {
      list.folder_ = place.parent_path();
      list.files_ = {place.filename().string()};
    } else {
      fail(ErrorCode::kNotFound, "'{}' is no folder of pictures and no picture", place.string());
    }
    return list;
  } catch (const fs::filesystem_error& error) {
    fail(ErrorCode::kUnavailable, "'{}' cannot be listed: {}", place.string(),
         error.code().message());
  }
}

void ImageList::read_folder() {
  const fs::path& place = folder_;
  std::vector<std::string> folders, here;
  for (const fs::directory_entry& entry : fs::directory_iterator(place)) {
    if (entry.is_directory()) {
      folders.push_back(entry.path().filename().string());
    } else if (entry.is_regular_file() && is_picture(entry.path())) {
      add_file(here, entry.path().filename(), place);
    }
  }
  std::ranges::sort(folders);
  for (const std::string& folder : folders) {
    const std::vector<std::string> files = pictures_below(place / folder, place);
    if (files.empty()) continue;
    for (const std::string& file : files) add_file(files_, file, place);
    labels_.insert(labels_.end(), files.size(), static_cast<std::int64_t>(classes_.size()));
    classes_.push_back(folder);
  }
  if (!here.empty() && !files_.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' holds pictures beside folders of them, as '{}': move them into a folder for their "
         "class, or list all with labels=FILE",
         place.string(), here.front());
  }
  if (files_.empty()) {
    std::ranges::sort(here);
    files_ = std::move(here);
  }
  if (files_.empty()) {
    fail(ErrorCode::kNotFound, "'{}' holds no picture (.png, .jpg or .jpeg)", place.string());
  }
}

void ImageList::name_labels(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto number = number_from<std::int64_t>(name);
    if (!number || *number < 0) break;
    labels_.push_back(*number);
  }
  if (labels_.size() == names.size()) return;
  classes_ = names;
  std::ranges::sort(classes_);
  classes_.erase(std::ranges::unique(classes_).begin(), classes_.end());
  if (classes_.size() > kMaxImageClasses) {
    fail(ErrorCode::kResourceExhausted, "{} classes: at most {} are read", classes_.size(),
         kMaxImageClasses);
  }
  labels_.clear();
  for (const std::string& name : names) {
    labels_.push_back(std::ranges::lower_bound(classes_, name) - classes_.begin());
  }
}

ImageList ImageList::of_table(const fs::path& folder, const ByteSource& table) {
  ImageList list;
  list.folder_ = folder;
  std::vector<std::string> names;
  Table rows(table);
  while (std::optional<Row> row = rows.next()) {
    add_file(list.files_, row->file, folder);
    if (row->label) names.push_back(std::move(*row->label));
    if (!names.empty() && names.size() != list.files_.size()) {
      fail(ErrorCode::kInvalidArgument, "{}: some pictures have a label and some have none",
           rows.place());
    }
  }
  if (list.files_.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' lists no picture", table.path());
  }
  list.name_labels(names);
  return list;
}

fs::path ImageList::path(std::int64_t row) const {
  return folder_ / files_.at(static_cast<std::size_t>(row));
}

}  // namespace harmonics::inline in_images
