// Canonical bytes of the records: fixed order, little-endian, lists sorted.
#include <algorithm>
#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/records.h>

#include <harmonics/custody/canonical.h>

namespace harmonics::inline in_custody {
namespace {

void write(ByteWriter& out, const Passage& passage) {
  out.text(passage.boundary);
  out.number(static_cast<std::uint8_t>(passage.direction));
  out.number(passage.step);
  out.number(passage.micro_batch);
}

Direction read_direction(CanonicalReader& in) {
  return static_cast<Direction>(in.choice(1, 2, "a direction"));
}

Passage read_passage(CanonicalReader& in) {
  Passage passage;
  passage.boundary = in.name();
  passage.direction = read_direction(in);
  passage.step = in.number<std::uint64_t>();
  passage.micro_batch = in.number<std::uint32_t>();
  return passage;
}

void write(ByteWriter& out, const Flow& flow) {
  out.text(flow.boundary);
  out.number(static_cast<std::uint8_t>(flow.direction));
  out.number(static_cast<std::uint8_t>(flow.sent));
  out.number(flow.count);
  out.raw(flow.last);
}

Flow read_flow(CanonicalReader& in) {
  Flow flow;
  flow.boundary = in.name();
  flow.direction = read_direction(in);
  flow.sent = in.choice(0, 1, "a flag") == 1;
  flow.count = in.number<std::uint64_t>();
  flow.last = in.digest();
  return flow;
}

}  // namespace

Bytes encode(const Link& link) {
  ByteWriter out;
  out.raw(link.run);
  out.raw(link.graph);
  write(out, link.passage);
  out.number(link.sequence);
  out.number(link.dtype);
  out.number(static_cast<std::uint32_t>(link.shape.size()));
  for (const std::int64_t extent : link.shape) out.number(extent);
  out.number(link.codec);
  out.raw(link.root);
  out.number(static_cast<std::uint32_t>(link.inputs.size()));
  for (const LinkInput& input : link.inputs) {
    out.number(static_cast<std::uint8_t>(input.source));
    out.text(input.name);
    out.raw(input.root);
  }
  out.raw(link.weights);
  out.number(link.weights_step);
  out.raw(link.previous);
  out.raw(link.proof);
  return out.take();
}

Link decode_link(ByteSpan bytes) {
  return decode_canonical(bytes, "link", [](CanonicalReader& in) {
    Link link;
    link.run = in.digest();
    link.graph = in.digest();
    link.passage = read_passage(in);
    link.sequence = in.number<std::uint64_t>();
    link.dtype = in.number<std::uint8_t>();
    link.shape = in.list<std::int64_t>(kMaxLinkAxes, 8, [&] { return in.extent(); });
    link.codec = in.choice(0, 0, "a codec");
    link.root = in.digest();
    link.inputs = in.sorted_list<LinkInput>(kMaxLinkInputs, 37, [&] {
      LinkInput input;
      input.source = static_cast<LinkInput::Source>(in.choice(1, 3, "a source"));
      input.name = in.name();
      input.root = in.digest();
      return input;
    });
    link.weights = in.digest();
    link.weights_step = in.number<std::uint64_t>();
    link.previous = in.digest();
    link.proof = in.digest();
    return link;
  });
}

Bytes encode(const Receipt& receipt) {
  ByteWriter out;
  write(out, receipt.passage);
  out.number(receipt.sequence);
  out.raw(receipt.link);
  out.raw(receipt.root);
  return out.take();
}

Receipt decode_receipt(ByteSpan bytes) {
  return decode_canonical(bytes, "receipt", [](CanonicalReader& in) {
    Receipt receipt;
    receipt.passage = read_passage(in);
    receipt.sequence = in.number<std::uint64_t>();
    receipt.link = in.digest();
    receipt.root = in.digest();
    return receipt;
  });
}

Bytes encode(const WeightMark& mark) {
  ByteWriter out;
  out.number(mark.step);
  out.raw(mark.root);
  return out.take();
}

WeightMark decode_weight_mark(ByteSpan bytes) {
  return decode_canonical(bytes, "weight mark", [](CanonicalReader& in) {
    const auto step = in.number<std::uint64_t>();
    return WeightMark{step, in.digest()};
  });
}

Bytes encode(const LayerMark& mark) {
  ByteWriter out;
  out.number(mark.step);
  out.number(mark.micro_batch);
  out.number(static_cast<std::uint32_t>(mark.layers.size()));
  for (const LayerRoot& layer : mark.layers) {
    out.text(layer.layer);
    out.raw(layer.root);
  }
  return out.take();
}

LayerMark decode_layer_mark(ByteSpan bytes) {
  return decode_canonical(bytes, "layer mark", [](CanonicalReader& in) {
    LayerMark mark;
    mark.step = in.number<std::uint64_t>();
    mark.micro_batch = in.number<std::uint32_t>();
    mark.layers = in.list<LayerRoot>(kMaxLayerRoots, 37, [&] {
      LayerRoot layer;
      layer.layer = in.name();
      layer.root = in.digest();
      return layer;
    });
    return mark;
  });
}

Bytes encode(const Head& head) {
  ByteWriter out;
  out.raw(head.run);
  out.text(head.stage);
  out.number(head.number);
  out.number(static_cast<std::uint8_t>(head.closing));
  out.number(head.entries);
  out.raw(head.log_root);
  out.raw(head.previous);
  out.number(static_cast<std::uint32_t>(head.flows.size()));
  for (const Flow& flow : head.flows) write(out, flow);
  out.number(static_cast<std::uint32_t>(head.seen.size()));
  for (const SeenHead& seen : head.seen) {
    out.text(seen.stage);
    out.number(seen.number);
    out.raw(seen.head);
  }
  return out.take();
}

Head decode_head(ByteSpan bytes) {
  return decode_canonical(bytes, "head", [](CanonicalReader& in) {
    Head head;
    head.run = in.digest();
    head.stage = in.name();
    head.number = in.number<std::uint64_t>();
    head.closing = in.choice(0, 1, "a flag") == 1;
    head.entries = in.number<std::uint64_t>();
    head.log_root = in.digest();
    head.previous = in.digest();
    head.flows = in.sorted_list<Flow>(kMaxHeadFlows, 46, [&] { return read_flow(in); });
    head.seen = in.sorted_list<SeenHead>(kMaxCustodyStages, 44, [&] {
      SeenHead seen;
      seen.stage = in.name();
      seen.number = in.number<std::uint64_t>();
      seen.head = in.digest();
      return seen;
    });
    return head;
  });
}

Bytes encode(const Opening& opening) {
  ByteWriter out;
  out.raw(opening.nonce);
  out.number(static_cast<std::uint32_t>(opening.stages.size()));
  for (const StageEntry& entry : opening.stages) {
    out.text(entry.stage);
    out.text(entry.signer);
    out.raw(entry.key);
    out.raw(entry.graph);
  }
  out.number(static_cast<std::uint32_t>(opening.boundaries.size()));
  for (const BoundaryEntry& entry : opening.boundaries) {
    out.text(entry.name);
    out.text(entry.from);
    out.text(entry.to);
  }
  if (opening.reproducible) out.number(std::uint8_t{1});
  return out.take();
}

Opening decode_opening(ByteSpan bytes) {
  Opening opening = decode_canonical(bytes, "opening", [](CanonicalReader& in) {
    Opening read;
    const ByteSpan nonce = in.raw(read.nonce.size());
    std::memcpy(read.nonce.data(), nonce.data(), nonce.size());
    read.stages = in.sorted_list<StageEntry>(kMaxCustodyStages, 72, [&] {
      StageEntry entry;
      entry.stage = in.name();
      entry.signer = in.name();
      entry.key = in.digest();
      entry.graph = in.digest();
      return entry;
    });
    read.boundaries = in.sorted_list<BoundaryEntry>(kMaxCustodyBoundaries, 12, [&] {
      BoundaryEntry entry;
      entry.name = in.name();
      entry.from = in.name();
      entry.to = in.name();
      return entry;
    });
    if (in.left() > 0) read.reproducible = in.choice(1, 1, "1, reproducible") == 1;
    return read;
  });
  try {
    return checked_opening(std::move(opening));
  } catch (const CustodyError&) {
    throw;
  } catch (const Error& error) {
    fail_custody(Breach::kMalformed, "opening: {}", error.what());
  }
}

}  // namespace harmonics::inline in_custody
