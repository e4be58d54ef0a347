package peer;

/** A client of a library, for the waiters of one process. */
interface Locks {
  /** Waits until the calling thread holds the name. Null means that it was not had within the time. */
  Holding lock(String name, long millis) throws Exception;

  void close();

  /** A lock that is held, by the thread that asked for it. */
  interface Holding {
    /** Asks, in the way of the library, whether the lock is still held. Without an answer it is not. */
    boolean trusted();

    /** What orders the holds, or 0 if nothing does. */
    long token();

    void unlock() throws Exception;
  }
}
