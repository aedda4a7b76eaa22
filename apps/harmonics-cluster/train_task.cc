#include "train_task.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>
#include <harmonics/cluster/task_environment.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/programs/programs.h>

#include "built_in_task.h"

namespace harmonics::inline in_cluster_program {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSyntheticRows = "512";

const std::string* find(const TaskParams& params, const std::string& key) {
  const auto found = params.find(key);
  return found == params.end() ? nullptr : &found->second;
}

bool is_of_zoo(const std::string* model) {
  const std::vector<std::string> names = zoo_names();
  return model != nullptr && std::ranges::find(names, *model) != names.end();
}

fs::path model_file(const TaskParams& params, const TrainPlaces& places) {
  const std::string* model = find(params, "model");
  if (model == nullptr) {
    const fs::path digits = places.examples / "digits.harp";
    if (!fs::exists(digits)) {
      fail(ErrorCode::kNotFound,
           "the task names no model, and the shipped digits are not at '{}': give it a 'model'",
           digits.string());
    }
    return digits;
  }
  if (model->ends_with(".harp")) {
    if (fs::exists(*model)) return fs::absolute(*model);
    fail(ErrorCode::kNotFound, "model: there is no file '{}' on this worker", *model);
  }
  if (!is_of_zoo(model)) {
    fail(ErrorCode::kNotFound, "model: '{}' is neither a .harp file nor a network of the zoo ({})",
         *model, listed(zoo_names()));
  }
  const fs::path file = places.scratch / (*model + ".harp");
  write_text_file(file, to_harp(zoo_graph(*model)));
  return file;
}

std::string shape_words(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

std::vector<std::string> synthetic_bindings(const HarmonicGraph& graph, const std::string& name,
                                            const std::string& rows) {
  const auto set = std::ranges::find(kSyntheticSets, std::string_view(name),
                                     &std::pair<std::string_view, int>::first);
  if (set == kSyntheticSets.end()) {
    fail(ErrorCode::kNotFound, "dataset: there is no synthetic '{}': {}", name,
         listed(kSyntheticSets, [](const auto& one) { return std::string(one.first); }));
  }
  std::vector<std::string> words;
  for (const ProducerNode& producer : graph.producers()) {
    const std::string shape = shape_words(producer.shape.value_or(Shape{1}));
    const bool whole = producer.dtype == DType::kInt64;
    words.push_back("--bind");
    words.push_back(
        whole ? format("{}=synthetic:?size={}&kind=integers&below={}&shape={}", producer.name, rows,
                       set->second, shape)
              : format("{}=synthetic:?size={}&kind=normal&shape={}", producer.name, rows, shape));
  }
  return words;
}

/// A CSV file whose columns are, in order, what the graph's producers take.
std::vector<std::string> csv_bindings(const HarmonicGraph& graph, const fs::path& file) {
  std::vector<std::string> words;
  std::int64_t column = 0;
  for (const ProducerNode& producer : graph.producers()) {
    const std::int64_t count = producer.shape ? element_count(*producer.shape) : 1;
    words.push_back("--bind");
    words.push_back(format("{}=csv:{}?columns={}-{}{}", producer.name, file.string(), column,
                           column + count - 1,
                           producer.dtype == DType::kInt64 ? "&dtype=int64" : ""));
    column += count;
  }
  return words;
}

/// Empty where there is none.
fs::path data_file(const std::string& dataset, const TrainPlaces& places) {
  for (const fs::path& file :
       {fs::path(dataset), places.data / dataset, places.data / (dataset + ".csv")}) {
    if (fs::is_regular_file(file)) return file;
  }
  return {};
}

std::vector<std::string> data_words(const TaskParams& params, const TrainPlaces& places,
                                    const HarpDocument& document) {
  const std::string* dataset = find(params, "dataset");
  if (dataset == nullptr) {
    if (!document.data.entries.empty()) return {};
    fail(ErrorCode::kFailedPrecondition,
         "the model binds no data: give the task a 'dataset', for instance synthetic:imagenet");
  }
  if (dataset->starts_with(kSyntheticPrefix)) {
    const std::string* rows = find(params, "synthetic_size");
    return synthetic_bindings(document.graph, dataset->substr(kSyntheticPrefix.size()),
                              rows == nullptr ? kSyntheticRows : *rows);
  }
  const fs::path file = data_file(*dataset, places);
  if (!file.empty()) return csv_bindings(document.graph, fs::absolute(file));
  fail(ErrorCode::kNotFound,
       "dataset: '{}' is neither a file nor a name below the data folder ({}): put it there, set "
       "HARMONICS_DATA_DIR for the worker, or train on made-up data with synthetic:{}",
       *dataset, places.data.empty() ? "HARMONICS_DATA_DIR is not set" : places.data.string(),
       *dataset);
}

/// One replica here, the others on the other workers. When one goes, the server stops them all and
/// tries again, so none waits for it here.
void add_gang(std::vector<std::string>& words, const TrainGang& gang) {
  words.insert(words.end(),
               {"--parts", "1", "--part", "0", "--run", gang.run, "--restarts", "0",
                "--first-contact", kFirstContactSeconds, "--replicas",
                std::to_string(gang.hosts.size()), "--replica", std::to_string(gang.rank)});
  for (std::size_t rank = 0; rank < gang.hosts.size(); ++rank) {
    words.insert(words.end(), {"--replica-place",
                               format("tcp://{}:{}/replicas", gang.hosts[rank], gang.port + rank)});
  }
}

TaskParams params_from_environment() {
  TaskParams params;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(kParamPrefix) || equals == text.npos) continue;
    params[trainer_key(text.substr(kParamPrefix.size(), equals - kParamPrefix.size()))] =
        text.substr(equals + 1);
  }
  return params;
}

std::uint64_t number_variable(const char* name) {
  const std::string text = environment_text(name);
  if (const auto value = number_from<std::uint64_t>(text)) return *value;
  fail(ErrorCode::kInvalidArgument, "{} is '{}', which is no number", name, text);
}

TrainGang gang_from_environment() {
  TrainGang gang;
  gang.hosts = gang_hosts(environment_text(kGangPeersVariable));
  if (gang.hosts.size() < 2) return gang;
  gang.rank = number_variable(kGangRankVariable);
  gang.port = static_cast<std::uint16_t>(number_variable(kGangPortVariable));
  gang.run =
      format("task-{}.{}", environment_text(kTaskIdVariable), environment_text(kAttemptVariable));
  // What `harmonics stage` shows the others.
  ::setenv(kTokenVariable, environment_text(kGangSecretVariable).c_str(), 1);
  return gang;
}

/// Beside the program in a build folder, or below share/ where it was installed.
fs::path examples_folder() {
  for (const fs::path& folder :
       {program_folder().parent_path() / "examples",
        program_folder().parent_path() / "share" / "harmonics" / "examples"}) {
    if (fs::exists(folder / "digits.harp")) return folder;
  }
  return program_folder().parent_path() / "examples";
}

}  // namespace

std::vector<std::string> training_words(const TaskParams& given, const TrainPlaces& places,
                                        const TrainGang& gang, std::string& note) {
  check_trainer_params(given);
  TaskParams params = given;
  const std::string* dataset = find(params, "dataset");
  // Members of a gang that each decided alone might mix real data with made-up data.
  const bool alone = gang.hosts.size() < 2;
  if (alone && dataset != nullptr && data_file(*dataset, places).empty()) {
    note = stand_in_for_data(params, is_of_zoo(find(params, "model")));
  }
  const fs::path model = model_file(params, places);
  const bool in_gang = gang.hosts.size() > 1;
  std::vector<std::string> words = {in_gang ? "stage" : "train", model.string()};
  for (std::string& word : data_words(params, places, load_harp_document(model))) {
    words.push_back(std::move(word));
  }
  for (const auto& [key, flag] : kTrainerFlags) {
    if (const std::string* value = find(params, key)) {
      words.push_back(flag);
      words.push_back(*value);
    }
  }
  if (places.devices > 0) words.insert(words.end(), {"--backend", "auto"});
  if (in_gang) {
    add_gang(words, gang);
  } else if (places.devices > 1) {
    words.insert(words.end(), {"--replicas", std::to_string(places.devices)});
  }
  return words;
}

int train_task() {
  TrainPlaces places;
  places.examples = examples_folder();
  places.data = environment_text(kDataFolderVariable);
  places.scratch = fs::current_path();
  const std::string devices = environment_text(kTaskDevicesVariable);
  places.devices = devices.empty() ? 0 : 1 + std::ranges::count(devices, ',');
  const TrainGang gang = gang_from_environment();
  std::string note;
  const std::vector<std::string> words =
      training_words(params_from_environment(), places, gang, note);
  write_text(TextStream::kOutput, note);
  announce(words);
  if (gang.hosts.size() > 1 && places.devices > 1) {
    write_text(TextStream::kError,
               format("a gang trains with one device of each worker: {} of this one lie idle\n",
                      places.devices - 1));
  }
  become_program(kFrontProgram, words);
}

}  // namespace harmonics::inline in_cluster_program
