package io.harmonics.spark;

import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Lets tasks find each other through the driver. Switch it on with {@code
 * spark.plugins=io.harmonics.spark.HarmonicsPlugin}.
 */
public final class HarmonicsPlugin implements SparkPlugin {
  private static final String GIVE_UP = "give up";

  private static volatile PluginContext executor;
  private static volatile MeetingBoard board;

  @Override
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      @Override
      public Map<String, String> init(SparkContext context, PluginContext plugin) {
        session = context;
        board = new MeetingBoard();
        return Map.of();
      }

      @Override
      public void shutdown() {
        board = null;
        session = null;
      }

      @Override
      public Object receive(Object message) {
        String[] question = (String[]) message;
        if (question[0].equals(GIVE_UP)) {
          session.cancelStage(Integer.parseInt(question[1]), question[2]);
          return new String[0];
        }
        return board().answer(question);
      }

      private SparkContext session;
    };
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      @Override
      public void init(PluginContext context, Map<String, String> extra) {
        executor = context;
      }
    };
  }

  /** Whether this driver's session has the plugin. */
  static boolean running() {
    return board != null;
  }

  /** In the driver. */
  static MeetingBoard board() {
    MeetingBoard found = board;
    if (found == null) {
      throw new IllegalStateException(
          "Harmonics needs its Spark plugin: start the session with"
              + " spark.plugins=io.harmonics.spark.HarmonicsPlugin");
    }
    return found;
  }

  /**
   * In a task that no second attempt could do better: ends its stage with the error's words, where
   * Spark would try the same rows three times more. Answers the error, to be thrown.
   */
  static RuntimeException giveUp(RuntimeException error) {
    TaskContext task = TaskContext.get();
    if (executor != null && task != null) {
      ask(GIVE_UP, Integer.toString(task.stageId()), error.getMessage());
    }
    return error;
  }

  /** In a task. */
  static String[] ask(String... question) {
    PluginContext context = executor;
    if (context == null) {
      throw new IllegalStateException(
          "this executor runs without spark.plugins=io.harmonics.spark.HarmonicsPlugin");
    }
    try {
      return (String[]) context.ask(question);
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new IllegalStateException("the driver does not answer: " + error.getMessage(), error);
    }
  }
}
