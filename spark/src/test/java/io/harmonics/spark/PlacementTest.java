package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class PlacementTest {
  @Test
  void thePartsOfACopyAskForOneMachine() {
    assertEquals(List.of("b", "b"), Placement.of(2, 1, Map.of("a", 1, "b", 2)));
    assertEquals(
        List.of("b", "b", "c", "c", "a", "a"),
        Placement.of(2, 3, Map.of("a", 1, "b", 3, "c", 2)));
    assertEquals(List.of("a", "a", "b", "b"), Placement.of(2, 2, Map.of("a", 2, "b", 2)));
  }

  @Test
  void whereThereIsNothingToChooseNothingIsAsked() {
    assertEquals(List.of(), Placement.of(2, 2, Map.of("a", 4)));
    assertEquals(List.of(), Placement.of(1, 4, Map.of("a", 2, "b", 2)));
    assertEquals(List.of(), Placement.of(2, 1, Map.of()));
  }
}
