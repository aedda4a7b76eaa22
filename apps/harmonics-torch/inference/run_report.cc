#include "run_report.h"

#include <algorithm>
#include <array>
#include <ranges>

#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>

namespace harmonics::inline in_torch_program {
namespace {

template <typename T>
std::vector<double> as_doubles(const Tensor& tensor) {
  const std::span<const T> values = tensor.values<T>();
  return {values.begin(), values.end()};
}

// The numbers of a CPU tensor; 16-bit floats never leave a graph on the CPU.
std::vector<double> numbers_of(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return as_doubles<float>(tensor);
    case DType::kFloat64: return as_doubles<double>(tensor);
    case DType::kInt64: return as_doubles<std::int64_t>(tensor);
    case DType::kInt32: return as_doubles<std::int32_t>(tensor);
    case DType::kInt8: return as_doubles<std::int8_t>(tensor);
    case DType::kUInt8: return as_doubles<std::uint8_t>(tensor);
    case DType::kBool: return as_doubles<bool>(tensor);
    case DType::kBFloat16:
    case DType::kFloat16: break;
  }
  return {};
}

// A vector of scores reads best as its winner.
bool is_scores(const Tensor& rows) { return rows.shape().size() == 2 && rows.shape()[1] > 1; }

std::size_t winner_of(const std::vector<double>& scores) {
  return static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
}

std::string numbers_text(const std::vector<double>& numbers) {
  const std::span shown = std::span(numbers).first(std::min(numbers.size(), kShownNumbers));
  const std::string text =
      joined(shown, " ", [](double number) { return format("{:.4g}", number); });
  return numbers.size() > kShownNumbers ? text + " …" : text;
}

std::string rows_text(const NamedTensors& first_rows, bool colour) {
  Table table{{{"row", Align::kRight}}, {}};
  for (const auto& [name, rows] : first_rows) {
    table.columns.push_back({name});
    if (is_scores(rows)) table.columns.push_back({"argmax", Align::kRight});
    for (std::int64_t i = 0; i < rows.shape()[0]; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (table.rows.size() <= at) table.rows.push_back({std::to_string(i)});
      const std::vector<double> numbers = numbers_of(rows.slice(i, i + 1));
      table.rows[at].push_back(numbers_text(numbers));
      if (is_scores(rows)) table.rows[at].push_back(std::to_string(winner_of(numbers)));
    }
  }
  return table.rows.empty() ? std::string() : table.text(colour) + "\n";
}

Json rows_json(const Tensor& rows) {
  Json all = Json::array();
  for (std::int64_t i = 0; i < rows.shape()[0]; ++i) {
    Json row = Json::array();
    for (const double number : numbers_of(rows.slice(i, i + 1))) row.push(number);
    all.push(std::move(row));
  }
  return all;
}

}  // namespace

void RunReport::add_rows(const NamedTensors& outputs, std::int64_t count) {
  const std::int64_t wanted = std::min(count, kShownRows - std::min(kShownRows, rows));
  rows += count;
  if (wanted == 0) return;
  for (const auto& [name, output] : outputs) {
    const Tensor shown = output.slice(0, wanted);
    Tensor& kept = first_rows[name];
    // Batches of another length (a named axis) are not shown beside the first.
    const bool fits = !kept.defined() || std::ranges::equal(kept.shape() | std::views::drop(1),
                                                            shown.shape() | std::views::drop(1));
    if (!fits) continue;
    kept = kept.defined() ? concat_rows(std::array{kept, shown}) : shown;
  }
}

double RunReport::rate() const {
  return streaming > 0 ? static_cast<double>(rows - starting_rows) / streaming
                       : static_cast<double>(rows) / seconds;
}

Json report_json(const RunReport& report) {
  Json json;
  json.set("graph", report.graph).set("rows", report.rows).set("seconds", report.seconds);
  if (report.plan) {
    json.set("model", report.plan->model).set("dtype", report.plan->dtype);
    json.set("batch_size", report.plan->batch_size);
  }
  if (report.starting > 0) json.set("starting_seconds", report.starting);
  json.set("samples_per_second", report.rate());
  if (report.loss) json.set("loss", *report.loss);
  if (report.accuracy) json.set("accuracy", *report.accuracy);
  Json outputs = Json::object();
  for (const auto& [name, rows] : report.first_rows) {
    Json output;
    Json shape = Json::array();
    for (std::size_t i = 1; i < rows.shape().size(); ++i) shape.push(rows.shape()[i]);
    output.set("shape", std::move(shape)).set("first_rows", rows_json(rows));
    const auto file = report.files.find(name);
    if (file != report.files.end()) output.set("file", file->second);
    outputs.set(name, std::move(output));
  }
  json.set("outputs", std::move(outputs));
  if (!report.stages.empty()) {
    json.set("stages", flows_json(report.stages)).set("restarts", report.restarts);
  }
  if (!report.proof.empty()) {
    json.set("proof", report.proof);
    json.set("chain", report.chain.empty() ? Json() : Json(report.chain));
  }
  return json;
}

std::string report_text(const RunReport& report, bool colour) {
  std::string text = rows_text(report.first_rows, colour);
  if (report.stages.size() > 1) text += flows_text(report.stages, colour) + "\n";
  const std::string starting =
      report.starting > 0 ? format(", {:.2f} s of them to start the parts", report.starting) : "";
  text +=
      bold(format("ran {}: {} rows in {:.2f} s{} ({} samples/s)", report.graph,
                  with_thousands(report.rows), report.seconds, starting, as_rate(report.rate())),
           colour) +
      "\n";
  if (report.loss) text += format("  loss      {:.4f}\n", *report.loss);
  if (report.accuracy) text += format("  accuracy  {}\n", as_percent(*report.accuracy));
  if (report.restarts > 0) text += format("  restarts  {}\n", report.restarts);
  for (const auto& [name, file] : report.files) text += format("  {} -> {}\n", name, file);
  if (!report.proof.empty()) {
    text +=
        format("  custody   {}\n",
               report.chain.empty() ? "signed and checked; --proof FILE would have kept the chain"
                                    : report.chain + " ('harmonics verify' checks it)");
  }
  return text;
}

void print_report(const RunReport& report, OutputStyle style) {
  switch (style) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, report_text(report, wants_colour(TextStream::kOutput)));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, report_json(report).dump() + "\n");
      break;
    case OutputStyle::kQuiet:
      if (report.accuracy) write_text(TextStream::kOutput, format("{}\n", *report.accuracy));
      break;
  }
}

}  // namespace harmonics::inline in_torch_program
