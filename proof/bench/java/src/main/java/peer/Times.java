package peer;

import com.google.gson.annotations.SerializedName;
import java.util.Arrays;

/** A histogram of durations as package histogram has it: buckets that are 3 % wide. */
final class Times {
  private static final int FINE = 5;

  @SerializedName("Counts")
  long[] counts = new long[0];

  @SerializedName("N")
  long n;

  @SerializedName("Most")
  long most;

  private static int bucket(long d) {
    long v = Math.max(d, 0);
    if (v < 1 << FINE) {
      return (int) v;
    }
    int shift = 63 - Long.numberOfLeadingZeros(v) - FINE;
    return (shift << FINE) + (int) (v >> shift);
  }

  void add(long d) {
    int i = bucket(d);
    grow(i + 1);
    counts[i]++;
    n++;
    most = Math.max(most, d);
  }

  void merge(Times other) {
    grow(other.counts.length);
    for (int i = 0; i < other.counts.length; i++) {
      counts[i] += other.counts[i];
    }
    n += other.n;
    most = Math.max(most, other.most);
  }

  private void grow(int buckets) {
    if (buckets > counts.length) {
      counts = Arrays.copyOf(counts, buckets);
    }
  }
}
