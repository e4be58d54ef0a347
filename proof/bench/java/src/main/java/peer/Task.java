package peer;

import com.google.gson.Gson;
import com.google.gson.annotations.SerializedName;

/** What the benchmark has a child do; see child.go. Times are in nanoseconds. */
final class Task {
  static final Gson JSON = new Gson();

  @SerializedName("Role")
  String role;

  @SerializedName("Contender")
  String contender;

  @SerializedName("Addr")
  String addr;

  @SerializedName("TTL")
  long ttl;

  @SerializedName("Name")
  String name;

  @SerializedName("Size")
  int size;

  @SerializedName("First")
  long first;

  @SerializedName("Field")
  String field;

  @SerializedName("Warm")
  long warm;

  @SerializedName("Span")
  long span;

  /** Connects the library that the task is about. */
  Locks open() throws InterruptedException {
    switch (contender) {
      case "Redisson":
        return new RedissonLocks(addr, ttl / 1_000_000);
      case "Curator":
        return new CuratorLocks(addr, (int) (ttl / 1_000_000));
      default:
        throw new IllegalArgumentException("no library is called " + contender);
    }
  }
}
