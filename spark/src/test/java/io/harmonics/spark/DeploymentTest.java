package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class DeploymentTest {
  private static final Map<String, String[]> GPU_3 = Map.of("gpu", new String[] {"3"});

  private static Object entry(Deployment deployment, int part, Map<String, String[]> resources) {
    return ((List<?>) deployment.settings(part, resources).get("deploy")).get(0);
  }

  @Test
  void aPartGetsItsBackendAndTheDeviceOfItsTask() {
    Deployment deployment = new Deployment().backend("gpu").part(1, "cpu");
    assertEquals(Map.of("backend", "gpu", "device", 3L), entry(deployment, 0, GPU_3));
    assertEquals(Map.of("backend", "cpu"), entry(deployment, 1, GPU_3));
    assertEquals(Map.of("backend", "gpu"), entry(deployment, 2, Map.of()));
    assertEquals(false, deployment.settings(0, GPU_3).get("strict"));
  }

  @Test
  void autoTakesWhatSparkGaveTheTask() {
    Deployment deployment = new Deployment().strict(true);
    assertEquals(Map.of("backend", "auto"), entry(deployment, 0, Map.of()));
    assertEquals(Map.of("backend", "gpu", "device", 3L), entry(deployment, 0, GPU_3));
    Map<String, String[]> fpga = Map.of("fpga", new String[] {"0"});
    assertEquals(Map.of("backend", "fpga", "device", 0L), entry(deployment, 0, fpga));
    assertEquals(true, deployment.settings(0, GPU_3).get("strict"));
  }
}
