#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include <harmonics/base/format.h>
#include <harmonics/base/xml.h>
#include <harmonics/graph/export.h>

#include "export_layout.h"

namespace harmonics::inline in_graph {
namespace {

constexpr double kMargin = 32;
constexpr double kHeaderHeight = 56;
constexpr double kTitleAdvance = 7.7;   // mean width of a bold 13 px character
constexpr double kDetailAdvance = 6.1;  // of an 11 px character
constexpr double kTitleHeight = 18;
constexpr double kDetailHeight = 15;
constexpr double kBoxPadding = 9;
constexpr double kFramePadding = 10;
constexpr double kFrameTitle = 18;
constexpr double kPortGap = 12;
constexpr std::size_t kMaxShownCharacters = 48;

struct Palette {
  std::string_view fill;
  std::string_view stroke;
};

Palette palette(BoxKind kind) {
  switch (kind) {
    case BoxKind::kProducer: return {"#e3f4ef", "#3f9682"};
    case BoxKind::kConsumer: return {"#edf5e1", "#7a9f45"};
    case BoxKind::kLoss: return {"#fef3dc", "#cf962c"};
    case BoxKind::kLayer: break;
  }
  return {"#ffffff", "#7d8fa9"};
}

constexpr std::array<std::string_view, 6> kTints = {"#eef3fb", "#f5f0fa", "#fdf3ee",
                                                    "#eef8f3", "#fbf6e7", "#f0f5f6"};

// Long texts lose their middle; the full name is in the box's tooltip.
std::string clipped(const std::string& text) {
  if (text.size() <= kMaxShownCharacters) return text;
  const std::size_t half = kMaxShownCharacters / 2 - 1;
  return text.substr(0, half) + "…" + text.substr(text.size() - half);
}

BoxSize size_of(const Box& box) {
  double width = kTitleAdvance * static_cast<double>(clipped(box.title).size());
  for (const std::string& detail : box.details) {
    width = std::max(width, kDetailAdvance * static_cast<double>(clipped(detail).size()));
  }
  return {std::max(72.0, width + 2 * kBoxPadding + 6),
          kTitleHeight + kDetailHeight * static_cast<double>(box.details.size()) + 2 * kBoxPadding};
}

struct Point {
  double x;
  double y;
};

// The boxes of a group and the rectangle around them.
struct Group {
  std::string name;
  std::string_view tint;
  std::vector<std::size_t> members = {};
  bool is_framed = false;
  double left = std::numeric_limits<double>::infinity();
  double right = -std::numeric_limits<double>::infinity();
  double top = std::numeric_limits<double>::infinity();
  double bottom = -std::numeric_limits<double>::infinity();
  std::size_t first_rank = std::numeric_limits<std::size_t>::max();
  std::size_t last_rank = 0;

  void enclose(const PlacedBox& place) {
    left = std::min(left, place.left());
    right = std::max(right, place.right());
    top = std::min(top, place.y);
    bottom = std::max(bottom, place.bottom());
    first_rank = std::min(first_rank, place.rank);
    last_rank = std::max(last_rank, place.rank);
  }
};

class SvgWriter {
 public:
  explicit SvgWriter(const HarmonicGraph& graph) : graph_(graph), drawn_(boxes_of(graph)) {
    std::vector<BoxSize> sizes;
    for (const Box& box : drawn_.boxes) sizes.push_back(size_of(box));
    layout_ = lay_out(drawn_, sizes);
    right_ = layout_.width;
    frame_groups();
  }

  std::string write() {
    const std::string header = header_text();
    const double text_width =
        kTitleAdvance * 1.3 * static_cast<double>(clipped(graph_.name()).size());
    const double inner = std::max({right_ - left_, text_width, 320.0});
    const double width = inner + 2 * kMargin;
    const double height = layout_.height + 2 * kMargin + kHeaderHeight + 2 * kFramePadding;
    shift_ = {kMargin + (inner - right_ - left_) / 2, kMargin + kHeaderHeight + kFramePadding};
    out_ = format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
                  R"(viewBox="0 0 {0:.0f} {1:.0f}" font-family="Helvetica, Arial, sans-serif">)"
                  "\n",
                  width, height);
    out_ += R"(<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" )"
            R"(markerHeight="7" orient="auto"><path d="M0 0.8 L7.5 4 L0 7.2 z" fill="#8191a6"/>)"
            "</marker></defs>\n";
    out_ += format("<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#fcfdfe\"/>\n{}", width, height,
                   header);
    for (const Group& group : groups_) write_group(group);
    spread_ports();
    for (const PlacedArrow& arrow : layout_.arrows) write_arrow(arrow);
    for (const PlacedBox& place : layout_.places) {
      if (!place.is_bend()) write_box(place);
    }
    return std::move(out_) + "</svg>\n";
  }

 private:
  [[nodiscard]] std::string header_text() const {
    const std::size_t layers = graph_.layers().size();
    std::string facts = format("{} layer{}", grouped_digits(static_cast<std::int64_t>(layers)),
                               layers == 1 ? "" : "s");
    facts += graph_.resolved()
                 ? format(" · {} parameters", grouped_digits(graph_.parameter_count()))
                 : " · shapes come from the data";
    return format(
        "<text x=\"{0:.0f}\" y=\"{1:.0f}\" font-size=\"17\" font-weight=\"bold\" "
        "fill=\"#26364d\">{2}</text>\n<text x=\"{0:.0f}\" y=\"{3:.0f}\" "
        "font-size=\"12\" fill=\"#66758a\">{4}</text>\n",
        kMargin, kMargin + 14, xml_text(clipped(graph_.name())), kMargin + 34, facts);
  }

  // A frame around each group; boxes of a group whose frame would cover others get a halo instead.
  void frame_groups() {
    std::map<std::string, std::size_t> numbers;
    for (std::size_t i = 0; i < drawn_.boxes.size(); ++i) {
      if (drawn_.boxes[i].group.empty()) continue;
      const auto [found, fresh] = numbers.try_emplace(drawn_.boxes[i].group, groups_.size());
      if (fresh) groups_.push_back({drawn_.boxes[i].group, kTints[groups_.size() % kTints.size()]});
      groups_[found->second].members.push_back(i);
    }
    for (Group& group : groups_) {
      for (const std::size_t i : group.members) group.enclose(layout_.places[i]);
    }
    // Long arrows that end in a group run inside its frame.
    for (const PlacedArrow& arrow : layout_.arrows) {
      const std::string& name = drawn_.boxes[arrow.path.back()].group;
      if (name.empty()) continue;
      Group& group = groups_[numbers.at(name)];
      for (std::size_t i = 1; i + 1 < arrow.path.size(); ++i) {
        const PlacedBox& bend = layout_.places[arrow.path[i]];
        if (bend.rank >= group.first_rank) group.enclose(bend);
      }
    }
    for (Group& group : groups_) finish_frame(group);
  }

  void finish_frame(Group& group) {
    group.is_framed = !covers_others(group);
    // The title stands left of the arrow that enters in the middle, where there is room for that.
    Group wide = group;
    const double middle = layout_.places[group.members.front()].x;
    const double title = kDetailAdvance * static_cast<double>(clipped(group.name).size());
    wide.left = std::min(wide.left, middle - title);
    if (!covers_others(wide)) group.left = wide.left;
    left_ = std::min(left_, group.left - kFramePadding);
    right_ = std::max(right_, group.right + kFramePadding);
  }

  [[nodiscard]] bool covers_others(const Group& group) const {
    for (std::size_t rank = group.first_rank; rank <= group.last_rank; ++rank) {
      for (const std::size_t i : layout_.ranks[rank]) {
        const PlacedBox& place = layout_.places[i];
        if (!place.is_bend() && drawn_.boxes[place.box].group != group.name &&
            place.right() > group.left && place.left() < group.right) {
          return true;
        }
      }
    }
    return false;
  }

  void write_group(const Group& group) {
    if (!group.is_framed) {
      for (const std::size_t i : group.members) {
        const PlacedBox& place = layout_.places[i];
        rectangle({place.left() - 6, place.y - 6}, place.width + 12, place.height + 12, group.tint);
      }
      return;
    }
    rectangle({group.left - kFramePadding, group.top - kFrameTitle},
              group.right - group.left + 2 * kFramePadding,
              group.bottom - group.top + kFrameTitle + kFramePadding, group.tint);
    text({group.left - kFramePadding + 8, group.top - kFrameTitle + 13}, "start",
         "font-size=\"10\" fill=\"#8090a5\"", clipped(group.name));
  }

  void rectangle(Point at, double width, double height, std::string_view fill) {
    out_ += format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"8\" "
        "fill=\"{}\" stroke=\"#dbe3ee\"/>\n",
        at.x + shift_.x, at.y + shift_.y, width, height, fill);
  }

  void text(Point at, std::string_view anchor, std::string_view style, std::string_view content) {
    out_ += format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n",
                   at.x + shift_.x, at.y + shift_.y, anchor, style, xml_text(content));
  }

  // Links that share a box enter and leave it side by side, in the order of where they come from.
  void spread_ports() {
    enter_.assign(layout_.arrows.size(), 0);
    leave_.assign(layout_.arrows.size(), 0);
    std::vector<std::vector<std::size_t>> entering(drawn_.boxes.size());
    std::vector<std::vector<std::size_t>> leaving(drawn_.boxes.size());
    for (std::size_t i = 0; i < layout_.arrows.size(); ++i) {
      entering[layout_.arrows[i].path.back()].push_back(i);
      leaving[layout_.arrows[i].path.front()].push_back(i);
    }
    const auto spread = [&](std::vector<std::size_t>& arrows, std::vector<double>& port,
                            bool enters) {
      const auto side = [&](std::size_t arrow) {
        const auto& path = layout_.arrows[arrow].path;
        return layout_.places[enters ? path[path.size() - 2] : path[1]].x;
      };
      std::stable_sort(arrows.begin(), arrows.end(),
                       [&](std::size_t a, std::size_t b) { return side(a) < side(b); });
      const auto& path = layout_.arrows[arrows.front()].path;
      const PlacedBox& box = layout_.places[enters ? path.back() : path.front()];
      const double gap = std::min(kPortGap, box.width * 0.8 / static_cast<double>(arrows.size()));
      for (std::size_t i = 0; i < arrows.size(); ++i) {
        port[arrows[i]] =
            gap * (static_cast<double>(i) - static_cast<double>(arrows.size() - 1) / 2);
      }
    };
    for (std::size_t i = 0; i < drawn_.boxes.size(); ++i) {
      if (!entering[i].empty()) spread(entering[i], enter_, true);
      if (!leaving[i].empty()) spread(leaving[i], leave_, false);
    }
  }

  [[nodiscard]] std::string curve(Point from, Point to) const {
    const double middle = (from.y + to.y) / 2 + shift_.y;
    return format(" C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", from.x + shift_.x, middle,
                  to.x + shift_.x, middle, to.x + shift_.x, to.y + shift_.y);
  }

  void write_arrow(const PlacedArrow& placed) {
    const std::size_t index = placed.arrow;
    const Arrow& arrow = drawn_.arrows[index];
    const PlacedBox& first = layout_.places[placed.path.front()];
    Point at{first.x + leave_[index], first.bottom()};
    std::string path = format("M{:.1f} {:.1f}", at.x + shift_.x, at.y + shift_.y);
    for (std::size_t i = 1; i < placed.path.size(); ++i) {
      const PlacedBox& next = layout_.places[placed.path[i]];
      const bool is_last = i + 1 == placed.path.size();
      const Point to{next.x + (is_last ? enter_[index] : 0), next.y};
      path += curve(at, to);
      at = {next.x, next.bottom()};
      if (!is_last) path += format(" L{:.1f} {:.1f}", at.x + shift_.x, at.y + shift_.y);
    }
    const bool is_loss = drawn_.boxes[arrow.to].kind == BoxKind::kLoss;
    out_ += format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.4\"{} "
        "marker-end=\"url(#arrow)\"/>\n",
        path, is_loss ? "#d9a441" : "#8e9db1", arrow.is_target ? " stroke-dasharray=\"5 4\"" : "");
  }

  void write_box(const PlacedBox& place) {
    const Box& box = drawn_.boxes[place.box];
    const Palette colour = palette(box.kind);
    const double round = box.kind == BoxKind::kLayer ? 6 : place.height / 2;
    out_ += format(
        "<g><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{:.1f}\" rx=\"{:.1f}\" fill=\"{}\" stroke=\"{}\" "
        "stroke-width=\"1.2\"/>\n",
        xml_text(box.title), place.left() + shift_.x, place.y + shift_.y, place.width, place.height,
        round, colour.fill, colour.stroke);
    double y = place.y + kBoxPadding + 13;
    text({place.x, y}, "middle", "font-size=\"13\" font-weight=\"bold\" fill=\"#26364d\"",
         clipped(box.title));
    for (const std::string& detail : box.details) {
      y += kDetailHeight;
      text({place.x, y + 1}, "middle", "font-size=\"11\" fill=\"#5b6b82\"", clipped(detail));
    }
    out_ += "</g>\n";
  }

  const HarmonicGraph& graph_;
  BoxGraph drawn_;
  Layout layout_;
  std::vector<Group> groups_;
  /// What the picture spans, frames included.
  double left_ = 0;
  double right_ = 0;
  Point shift_{0, 0};
  /// Per arrow: how far from the middle of its boxes it enters and leaves.
  std::vector<double> enter_;
  std::vector<double> leave_;
  std::string out_;
};

}  // namespace

std::string to_svg(const HarmonicGraph& graph) { return SvgWriter(graph).write(); }

}  // namespace harmonics::inline in_graph
