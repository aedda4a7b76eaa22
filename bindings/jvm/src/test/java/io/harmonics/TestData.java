package io.harmonics;

import java.util.Map;
import java.util.Random;

/** A small learning problem: three classes that lie around three corners. */
final class TestData {
  static final int ROWS = 60;
  static final Map<String, Object> SETTINGS =
      Map.of("seed", 3, "lr", 0.05, "threads", 1, "micro_batches", 2);

  private TestData() {}

  static HarmonicGraph graph() {
    return HarmonicGraph.parse(
        """
        harmonic corners {
          producer x {2};
          producer label {1} int64;
          layer hidden linear(out = 16);
          layer more linear(out = 8);
          layer output linear(out = 3);
          consumer prediction;
          cycle {
            x -(relu)-> hidden -(relu)-> more -> output -> prediction;
            output <-(cross_entropy)- label;
          }
        }
        """);
  }

  static Producer points() {
    Random random = new Random(5);
    float[] values = new float[2 * ROWS];
    for (int row = 0; row < ROWS; row++) {
      double angle = 2 * Math.PI * (row % 3) / 3;
      values[2 * row] = (float) (Math.cos(angle) + 0.1 * random.nextGaussian());
      values[2 * row + 1] = (float) (Math.sin(angle) + 0.1 * random.nextGaussian());
    }
    return RowProducer.of(values, 2);
  }

  static Producer labels() {
    long[] values = new long[ROWS];
    for (int row = 0; row < ROWS; row++) {
      values[row] = row % 3;
    }
    return RowProducer.of(values, 1);
  }

  /** Binds what of the data this engine's part reads. */
  static void bind(HarmonicGraph part, Engine engine) {
    for (String name : part.producers()) {
      Producer source = name.equals("x") ? points() : labels();
      engine.bindProducer(name, new BatchProducer(new ShuffleProducer(source), 8));
    }
  }
}
