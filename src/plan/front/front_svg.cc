#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <harmonics/base/format.h>
#include <harmonics/base/xml.h>
#include <harmonics/plan/front.h>

namespace harmonics::inline in_plan {
namespace {

constexpr double kPlotLeft = 90;
constexpr double kPlotTop = 70;
constexpr double kPlotWidth = 560;
constexpr double kPlotHeight = 380;
constexpr double kKeyLeft = kPlotLeft + kPlotWidth + 40;
constexpr double kKeyLine = 18;
constexpr double kWanted = 5;  // ticks, about
// More plans than this are drawn, but not explained one by one.
constexpr std::size_t kExplained = 16;

struct AimColour {
  PlanAim aim;
  std::string_view colour;
  std::string_view words;
};
constexpr std::array kAimColours = {
    AimColour{PlanAim::kPeriod, "#4269d0", "the fastest"},
    AimColour{PlanAim::kLatency, "#efb118", "the quickest from end to end"},
    AimColour{PlanAim::kHosts, "#6cc5b0", "the one with the fewest hosts"},
    AimColour{PlanAim::kCost, "#ff725c", "the cheapest"},
    AimColour{PlanAim::kEnergy, "#a463f2", "the one that takes the least energy"}};
constexpr std::string_view kBetweenColour = "#9aa0a6";

// From a round number below to a round number above, in round steps.
struct Axis {
  double low = 0;
  double high = 1;
  double step = 1;

  static Axis around(double least, double most) {
    Axis axis;
    const double span = most > least ? most - least : std::max(std::abs(most), 1e-12);
    const double raw = span / kWanted;
    const double ten = std::pow(10.0, std::floor(std::log10(raw)));
    const double first = raw / ten;
    axis.step = ten * (first <= 1 ? 1 : first <= 2 ? 2 : first <= 5 ? 5 : 10);
    axis.low = std::max(0.0, std::floor(least / axis.step) * axis.step);
    axis.high = std::ceil(most / axis.step) * axis.step;
    if (axis.high <= axis.low) axis.high = axis.low + axis.step;
    return axis;
  }
  double share(double value) const { return (value - low) / (high - low); }
  int ticks() const { return static_cast<int>(std::lround((high - low) / step)); }
  double tick(int k) const { return low + step * k; }
};

class FrontPicture {
 public:
  FrontPicture(const PlanProblem& problem, const PlanFront& front)
      : problem_(problem), front_(front) {
    for (const PlanAim aim : {PlanAim::kEnergy, PlanAim::kCost}) {
      if (std::ranges::find(front.aims, aim) != front.aims.end()) upwards_ = aim;
    }
    x_ = axis_of(PlanAim::kPeriod);
    y_ = axis_of(upwards_);
  }

  std::string draw() {
    const std::size_t explained = std::min(front_.plans.size(), kExplained);
    const double key =
        kPlotTop + kKeyLine * static_cast<double>(front_.aims.size() + 4 + explained);
    const double height = std::max(kPlotTop + kPlotHeight + 70, key + 30);
    text_ = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#ffffff\"/>\n",
        kKeyLeft + 420, height);
    label({12, 24}, format("{}: plans of which none is better in everything", problem_.model),
          "#111111");
    label({12, 44},
          format("{}, batch size {}; no plan has a shorter period than {:.4g} s", problem_.dtype,
                 problem_.batch_size, front_.least_period_s),
          "#444444");
    axes();
    for (std::size_t k = 0; k < front_.plans.size(); ++k) point(k);
    for (std::size_t k = 0; k < explained; ++k) {
      const Spot at = spot(front_.plans[k]);
      label({at.x + 9, at.y - 7}, format("{}", k + 1), "#111111");
    }
    legend(explained);
    return text_ + "</svg>\n";
  }

 private:
  struct Spot {
    double x;
    double y;
  };

  Axis axis_of(PlanAim aim) const {
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (const AimedPlan& plan : front_.plans) {
      least = std::min(least, scaled(plan, aim));
      most = std::max(most, scaled(plan, aim));
    }
    return Axis::around(least, most);
  }

  // Costs are for a thousand samples.
  static double scaled(const AimedPlan& plan, PlanAim aim) {
    return plan.value(aim) * (aim == PlanAim::kCost ? 1000 : 1);
  }

  void label(Spot at, std::string_view words, std::string_view colour,
             std::string_view anchor = "start") {
    text_ += format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" text-anchor=\"{}\">{}</text>\n",
                    at.x, at.y, colour, anchor, xml_text(words));
  }

  void line(Spot from, Spot to, std::string_view colour) {
    text_ +=
        format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n",
               from.x, from.y, to.x, to.y, colour);
  }

  Spot spot(const AimedPlan& plan) const {
    return {kPlotLeft + kPlotWidth * x_.share(scaled(plan, PlanAim::kPeriod)),
            kPlotTop + kPlotHeight * (1 - y_.share(scaled(plan, upwards_)))};
  }

  void axes() {
    const double bottom = kPlotTop + kPlotHeight;
    for (int k = 0; k <= x_.ticks(); ++k) {
      const double x = kPlotLeft + kPlotWidth * x_.share(x_.tick(k));
      line({x, kPlotTop}, {x, bottom}, "#eeeeee");
      label({x, bottom + 18}, format("{:.6g}", x_.tick(k)), "#666666", "middle");
    }
    for (int k = 0; k <= y_.ticks(); ++k) {
      const double y = kPlotTop + kPlotHeight * (1 - y_.share(y_.tick(k)));
      line({kPlotLeft, y}, {kPlotLeft + kPlotWidth, y}, "#eeeeee");
      label({kPlotLeft - 8, y + 4}, format("{:.6g}", y_.tick(k)), "#666666", "end");
    }
    line({kPlotLeft, bottom}, {kPlotLeft + kPlotWidth, bottom}, "#888888");
    line({kPlotLeft, kPlotTop}, {kPlotLeft, bottom}, "#888888");
    label({kPlotLeft + kPlotWidth / 2, bottom + 42}, "period in seconds (shorter is faster)",
          "#444444", "middle");
    label({12, kPlotTop - 10},
          upwards_ == PlanAim::kCost     ? "cost of 1000 samples"
          : upwards_ == PlanAim::kEnergy ? "joules a sample"
                                         : "latency in seconds",
          "#444444");
  }

  // Of all aims in which no plan is better.
  std::vector<std::string_view> colours_of(const AimedPlan& plan) const {
    std::vector<std::string_view> colours;
    for (const AimColour& one : kAimColours) {
      if (std::ranges::find(front_.aims, one.aim) == front_.aims.end()) continue;
      const bool best = std::ranges::all_of(front_.plans, [&](const AimedPlan& other) {
        return plan.value(one.aim) <= other.value(one.aim) * (1 + 1e-9);
      });
      if (best) colours.push_back(one.colour);
    }
    if (colours.empty()) colours.push_back(kBetweenColour);
    return colours;
  }

  void point(std::size_t k) {
    const AimedPlan& plan = front_.plans[k];
    const Spot at = spot(plan);
    const std::vector<std::string_view> colours = colours_of(plan);
    // A ring for each further aim.
    for (std::size_t ring = 1; ring < colours.size(); ++ring) {
      text_ += format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"none\" stroke=\"{}\" "
          "stroke-width=\"2\"/>\n",
          at.x, at.y, 5 + 3 * ring, colours[ring]);
    }
    text_ += format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"{}\" stroke=\"#ffffff\"><title>{}"
        "</title></circle>\n",
        at.x, at.y, colours.front(),
        xml_text(format("plan {}: period {:.6g} s, latency {:.6g} s, {} hosts; {} binds", k + 1,
                        plan.period_s, plan.latency_s, plan.hosts, plan.binds)));
  }

  void legend(std::size_t explained) {
    double y = kPlotTop;
    label({kKeyLeft, y}, "a plan that is", "#444444");
    for (const AimColour& one : kAimColours) {
      if (std::ranges::find(front_.aims, one.aim) == front_.aims.end()) continue;
      mark(y += kKeyLine, one.colour, one.words);
    }
    mark(y += kKeyLine, kBetweenColour, "between them");
    label({kKeyLeft, y += 2 * kKeyLine}, "what binds", "#444444");
    for (std::size_t k = 0; k < explained; ++k) {
      const AimedPlan& plan = front_.plans[k];
      label({kKeyLeft, y += kKeyLine},
            format("{}: {} ({} host{})", k + 1, plan.binds, plan.hosts, plan.hosts == 1 ? "" : "s"),
            "#111111");
    }
    if (explained < front_.plans.size()) {
      label({kKeyLeft, y + kKeyLine}, format("and {} more", front_.plans.size() - explained),
            "#666666");
    }
  }

  void mark(double y, std::string_view colour, std::string_view words) {
    text_ += format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"{}\"/>\n", kKeyLeft + 6,
                    y - 4, colour);
    label({kKeyLeft + 20, y}, words, "#111111");
  }

  const PlanProblem& problem_;
  const PlanFront& front_;
  PlanAim upwards_ = PlanAim::kLatency;
  Axis x_;
  Axis y_;
  std::string text_;
};

}  // namespace

std::string front_to_svg(const PlanProblem& problem, const PlanFront& front) {
  return FrontPicture(problem, front).draw();
}

}  // namespace harmonics::inline in_plan
