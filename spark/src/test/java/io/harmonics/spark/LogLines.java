package io.harmonics.spark;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;

/** What a class of this Java machine writes into its log until closed. */
final class LogLines implements AutoCloseable {
  private final List<String> told = new CopyOnWriteArrayList<>();
  private final Logger logger;
  private final AbstractAppender appender;

  LogLines(Class<?> teller) {
    logger = (Logger) LogManager.getLogger(teller);
    appender =
        new AbstractAppender("lines", null, null, true, Property.EMPTY_ARRAY) {
          @Override
          public void append(LogEvent event) {
            told.add(event.getMessage().getFormattedMessage());
          }
        };
    appender.start();
    logger.addAppender(appender);
  }

  List<String> told() {
    return List.copyOf(told);
  }

  @Override
  public void close() {
    logger.removeAppender(appender);
    appender.stop();
  }
}
