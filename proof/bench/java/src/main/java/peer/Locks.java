package peer;

/** One client of a lock library, connected to the server. */
interface Locks {
  /** Returns the lock of a name, for one thread. */
  Lock of(String name);

  void close();

  /** A lock as one library has it. It waits until it holds the lock, or the thread is interrupted. */
  interface Lock {
    void lock() throws Exception;

    void unlock() throws Exception;
  }
}
