package peer;

import java.util.Map;

/** What a worker is told. */
final class Brief {
  final String peer;
  final String addrs;
  final String register;
  final String[] names;
  final long seed;
  final long weight;
  final int waiters;
  final int lease; // in milliseconds
  final int patience; // in milliseconds
  private final long clock; // what the runner's clock is ahead of this one's, in nanoseconds

  Brief(Map<String, String> env) {
    peer = env.get("STILE_CHAOS_PEER");
    addrs = env.get("STILE_CHAOS_URL");
    register = env.get("STILE_CHAOS_REGISTER");
    names = env.get("STILE_CHAOS_NAMES").split(",");
    seed = Long.parseLong(env.get("STILE_CHAOS_SEED"));
    weight = Long.parseLong(env.get("STILE_CHAOS_WEIGHT"));
    waiters = Integer.parseInt(env.get("STILE_CHAOS_WAITERS"));
    lease = Integer.parseInt(env.get("STILE_CHAOS_LEASE"));
    patience = Integer.parseInt(env.get("STILE_CHAOS_PATIENCE"));
    clock = Long.parseLong(env.get("STILE_CHAOS_CLOCK"));
  }

  /** The time by the clock of the runner. */
  long now() {
    return System.nanoTime() + clock;
  }
}
