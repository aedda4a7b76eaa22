#include "fit_terms.h"

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
std::string encode(const FitTerms& terms) {
  ByteWriter out;
  out.number(terms.last_epoch);
  out.number(static_cast<std::uint8_t>(terms.epochs_are_steps));
  out.number(static_cast<std::uint8_t>(terms.evaluates));
  out.number(static_cast<std::int32_t>(terms.patience));
  out.number(static_cast<std::uint8_t>(terms.saves));
  out.number(terms.save_every_steps);
  out.number(terms.save_every_epochs);
  return text_of(out.bytes());
}

FitTerms decode_fit_terms(std::string_view text) {
  ByteReader in(bytes_of(text), "terms of a fit");
  FitTerms terms;
  terms.last_epoch = in.number<std::int64_t>();
  terms.epochs_are_steps = in.number<std::uint8_t>() != 0;
  terms.evaluates = in.number<std::uint8_t>() != 0;
  terms.patience = in.number<std::int32_t>();
  terms.saves = in.number<std::uint8_t>() != 0;
  terms.save_every_steps = in.number<std::int64_t>();
  terms.save_every_epochs = in.number<std::int64_t>();
  if (in.left() != 0) in.broken("bytes after the end");
  return terms;
}

std::string encode(const TapReport& taps) {
  ByteWriter out;
  out.number(taps.loss_sum);
  out.number(taps.judged);
  out.number(taps.correct);
  return text_of(out.bytes());
}

TapReport decode_tap_report(std::string_view text) {
  ByteReader in(bytes_of(text), "report of taps");
  TapReport taps;
  taps.loss_sum = in.number<double>();
  taps.judged = in.number<std::int64_t>();
  taps.correct = in.number<std::int64_t>();
  if (in.left() != 0) in.broken("bytes after the end");
  return taps;
}

void join_terms(FitTerms& terms, const FitTerms& other, std::string_view part) {
  const auto same = [&](std::string_view what, std::int64_t here, std::int64_t there) {
    if (here == there) return;
    fail(ErrorCode::kFailedPrecondition,
         "{} is {} here and {} in part '{}': all parts must fit alike", what, here, there, part);
  };
  same("the number of epochs", terms.last_epoch, other.last_epoch);
  same("the patience", terms.patience, other.patience);
  same("whether checkpoints are saved (1) or not (0)", terms.saves, other.saves);
  same("the number of steps between checkpoints", terms.save_every_steps, other.save_every_steps);
  same("the number of epochs between checkpoints", terms.save_every_epochs,
       other.save_every_epochs);
  terms.epochs_are_steps = terms.epochs_are_steps || other.epochs_are_steps;
  terms.evaluates = terms.evaluates || other.evaluates;
}

}  // namespace harmonics::inline in_schedule
