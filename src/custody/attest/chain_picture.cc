#include <harmonics/custody/chain_picture.h>

#include <algorithm>
#include <array>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/xml.h>

#include "chain_events.h"

namespace harmonics::inline in_custody {
namespace {

constexpr double kLeft = 260;
constexpr double kWidth = 860;
constexpr double kRight = 40;
constexpr double kRow = 34;
constexpr double kCell = 20;
constexpr double kTop = 92;
constexpr double kBetween = 74;  // between the two halves
constexpr double kBottom = 46;
constexpr std::uint64_t kMaxCells = 215;  // four pixels each
constexpr std::array<const char*, 8> kColours = {"#2f6fab", "#c8682b", "#3d8f5f", "#8a5aa8",
                                                 "#a83a4a", "#5c6b73", "#a58a1f", "#2a8c94"};

// The drawing of one chain.
class ChainPicture {
 public:
  ChainPicture(const ChainEvents& events, const VerifyReport& report)
      : events_(events), report_(report) {
    for (const DrawnStage& stage : events.stages) {
      if (std::ranges::find(signers_, stage.signer) == signers_.end()) {
        signers_.push_back(stage.signer);
      }
    }
  }

  [[nodiscard]] std::string svg(const std::vector<DrawnHandOver>& hand_overs, std::uint64_t step);

 private:
  void text(double x, double y, std::string_view words, std::string_view attributes = "");
  void labels(double top);
  void steps();
  void marks(std::size_t row);
  void sequence(double top, const std::vector<DrawnHandOver>& all, std::uint64_t step);
  void arrow(double top, const DrawnHandOver& one, double scale);
  void legend(double y);

  [[nodiscard]] double row_y(double top, std::size_t row) const {
    return top + kRow * static_cast<double>(row);
  }
  [[nodiscard]] const char* colour_of(const std::string& signer) const {
    const auto at = std::ranges::find(signers_, signer) - signers_.begin();
    return kColours.at(static_cast<std::size_t>(at) % kColours.size());
  }
  [[nodiscard]] double step_x(double step) const {
    return kLeft + kWidth * step / std::max<double>(1, static_cast<double>(events_.steps));
  }

  const ChainEvents& events_;
  const VerifyReport& report_;
  std::vector<std::string> signers_;
  std::string drawn_;
};

void ChainPicture::text(double x, double y, std::string_view words, std::string_view attributes) {
  drawn_ +=
      format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, xml_text(words));
}

void ChainPicture::labels(double top) {
  for (std::size_t row = 0; row < events_.stages.size(); ++row) {
    const DrawnStage& stage = events_.stages[row];
    const double y = row_y(top, row);
    text(kLeft - 12, y + 9, stage.stage, "text-anchor=\"end\"");
    text(kLeft - 12, y + 22,
         format("{}{}, key {}", stage.signer, stage.known ? "" : " (unknown)",
                key_text(stage.key).substr(0, 8)),
         format("text-anchor=\"end\" font-size=\"10\" fill=\"{}\"", colour_of(stage.signer)));
  }
}

void ChainPicture::steps() {
  const std::uint64_t total = std::max<std::uint64_t>(1, events_.steps);
  const std::uint64_t per_cell = (total + kMaxCells - 1) / kMaxCells;
  for (std::size_t row = 0; row < events_.stages.size(); ++row) {
    const DrawnStage& stage = events_.stages[row];
    for (std::uint64_t first = 0; first < total; first += per_cell) {
      const std::uint64_t end = std::min(total, first + per_cell);
      std::uint64_t sent = 0;
      std::uint64_t received = 0;
      for (auto at = stage.steps.lower_bound(first); at != stage.steps.end() && at->first < end;
           ++at) {
        sent += at->second.first;
        received += at->second.second;
      }
      if (sent + received == 0) continue;
      const std::string when = end == first + 1 ? format("step {}", first + 1)
                                                : format("steps {} to {}", first + 1, end);
      const double width = step_x(static_cast<double>(end)) - step_x(static_cast<double>(first));
      drawn_ += format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:g}\" fill=\"{}\" "
          "fill-opacity=\"{}\"><title>{}</title></rect>\n",
          step_x(static_cast<double>(first)), row_y(kTop, row),
          std::max(0.5, width - (width > 3 ? 1 : 0.2)), kCell, colour_of(stage.signer),
          sent > 0 ? "0.85" : "0.4",
          xml_text(format("{}: {} sent {} and received {} tensor(s); signed by {}", when,
                          stage.stage, sent, received, stage.signer)));
    }
    marks(row);
  }
}

// Weights that a stage announced, as diamonds on its row.
void ChainPicture::marks(std::size_t row) {
  const DrawnStage& stage = events_.stages[row];
  const std::size_t every = stage.marks.size() / kMaxCells + 1;
  for (std::size_t i = 0; i < stage.marks.size(); ++i) {
    if (i % every != 0 && i + 1 != stage.marks.size()) continue;
    const WeightMark& mark = stage.marks[i];
    drawn_ += format(
        "<path d=\"M {:.1f} {:.1f} l 5 5 l -5 5 l -5 -5 z\" fill=\"white\" stroke=\"#222222\">"
        "<title>{}</title></path>\n",
        step_x(static_cast<double>(mark.step)), row_y(kTop, row) + kCell / 2 - 5,
        xml_text(format("weights of {} after step {}: {}", stage.stage, mark.step,
                        digest_text(mark.root))));
  }
}

void ChainPicture::arrow(double top, const DrawnHandOver& one, double scale) {
  const bool forward = one.passage.direction == Direction::kForward;
  const double x1 = kLeft + 14 + scale * static_cast<double>(one.sent_at);
  const double x2 = kLeft + 14 + scale * static_cast<double>(one.received_at);
  const double y1 = row_y(top, one.from) + kCell / 2;
  const double y2 = row_y(top, one.to) + kCell / 2;
  const char* colour = colour_of(events_.stages[one.from].signer);
  drawn_ += format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"1.6\"{} marker-end=\"url(#tip)\"><title>{}</title></line>\n"
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n",
      x1, y1, x2, y2, colour, forward ? "" : " stroke-dasharray=\"4 2\"",
      xml_text(format("{}: {} to {}", passage_text(one.passage), events_.stages[one.from].stage,
                      events_.stages[one.to].stage)),
      x1, y1, colour);
}

void ChainPicture::sequence(double top, const std::vector<DrawnHandOver>& all, std::uint64_t step) {
  text(kLeft, top - 22,
       format("Step {}, hand-over by hand-over (solid: activations, dashed: gradients; the first "
              "{})",
              step + 1, all.size()),
       "font-weight=\"bold\"");
  std::uint64_t last = 1;
  for (const DrawnHandOver& one : all) last = std::max(last, one.received_at);
  const double scale = (kWidth - 28) / static_cast<double>(last);
  for (std::size_t row = 0; row < events_.stages.size(); ++row) {
    const double y = row_y(top, row) + kCell / 2;
    drawn_ += format(
        "<line x1=\"{0:g}\" y1=\"{1:.1f}\" x2=\"{2:g}\" y2=\"{1:.1f}\" stroke=\"#cccccc\"/>\n",
        kLeft, y, kLeft + kWidth);
  }
  for (const DrawnHandOver& one : all) arrow(top, one, scale);
}

void ChainPicture::legend(double y) {
  double x = kLeft;
  for (const std::string& signer : signers_) {
    drawn_ += format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                     x, y - 10, colour_of(signer));
    text(x + 17, y, signer);
    x += 34 + 7.2 * static_cast<double>(signer.size());
  }
  text(x, y, "a diamond: weights that were announced; light: only received", "fill=\"#555555\"");
}

std::string ChainPicture::svg(const std::vector<DrawnHandOver>& all, std::uint64_t step) {
  text(kLeft, 26,
       format("Run {}: {} step(s), {} hand-over(s), {}", digest_text(report_.run).substr(0, 16),
              events_.steps, report_.links,
              report_.signers_known ? "verified" : "consistent, signers unknown"),
       "font-size=\"15\" font-weight=\"bold\"");
  text(kLeft, kTop - 36, "Who signed what, step by step", "font-weight=\"bold\"");
  double every = 1;  // then 2, 5, 10, 20, …
  for (int i = 0; static_cast<double>(events_.steps) / every > 10; ++i)
    every *= i % 3 == 1 ? 2.5 : 2;
  for (double at = 0; at <= static_cast<double>(events_.steps); at += every) {
    drawn_ += format(
        "<line x1=\"{0:.1f}\" y1=\"{1:g}\" x2=\"{0:.1f}\" y2=\"{2:g}\" stroke=\"#e2e2e2\"/>\n",
        step_x(at), kTop - 8, row_y(kTop, events_.stages.size()) - 8);
    text(step_x(at), kTop - 14, format("{:g}", at), "text-anchor=\"middle\" fill=\"#555555\"");
  }
  labels(kTop);
  steps();
  const double second = row_y(kTop, events_.stages.size()) + kBetween;
  labels(second);
  sequence(second, all, step);
  const double height = row_y(second, events_.stages.size()) + kBottom;
  legend(height - 14);
  return format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\""
             " height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
             "markerHeight=\"7\" orient=\"auto\"><path d=\"M 0 0 L 8 4 L 0 8 z\" "
             "fill=\"#444444\"/></marker></defs>\n"
             "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n",
             kLeft + kWidth + kRight, height) +
         drawn_ + "</svg>\n";
}

}  // namespace

std::string chain_svg(std::span<const Chain> chains, const VerifyReport& report,
                      std::uint64_t step) {
  if (report.stages.size() > kMaxDrawnStages) {
    fail(ErrorCode::kResourceExhausted, "a picture holds {} stages, and this run has {}",
         kMaxDrawnStages, report.stages.size());
  }
  const ChainEvents events = chain_events(chains, report);
  if (step >= std::max<std::uint64_t>(1, events.steps)) {
    fail(ErrorCode::kOutOfRange, "there is no step {}: the run has {}", step + 1, events.steps);
  }
  return ChainPicture(events, report)
      .svg(hand_overs(chains, events, step, kMaxDrawnHandOvers), step);
}

}  // namespace harmonics::inline in_custody
