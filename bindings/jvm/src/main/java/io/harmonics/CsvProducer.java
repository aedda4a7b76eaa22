package io.harmonics;

/** The rows of a CSV file. */
public final class CsvProducer extends Producer {
  public CsvProducer(String path) {
    super(Native.producerCsv(Native.utf8(path)));
  }
}
