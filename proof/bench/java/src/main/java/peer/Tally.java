package peer;

import com.google.gson.annotations.SerializedName;
import java.util.ArrayList;
import java.util.List;

/** What came of a contention within its window, as contention.go has it. */
final class Tally {
  @SerializedName("Each")
  final List<Long> each = new ArrayList<>();

  @SerializedName("Passed")
  long passed;

  @SerializedName("Crossed")
  long crossed;

  @SerializedName("Overlaps")
  long overlaps;

  @SerializedName("Waits")
  final Times waits = new Times();

  @SerializedName("Hunger")
  long hunger;

  void merge(Tally other) {
    each.addAll(other.each);
    passed += other.passed;
    crossed += other.crossed;
    overlaps += other.overlaps;
    waits.merge(other.waits);
    hunger = Math.max(hunger, other.hunger);
  }
}
