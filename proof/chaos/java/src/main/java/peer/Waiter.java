package peer;

import java.io.IOException;
import java.util.Random;

/** A thread that takes one of the names after the other, holds it for a while, and gives it back, until it is to end. */
final class Waiter extends Thread {
  private static final int FREED = 2;
  private static final int GONE = 4;
  private static final int LEAVING = 1;

  private final Brief brief;
  private final int number;
  private final Locks locks;
  private final Register register;
  private final Random random;

  private boolean asking; // this and the next one are guarded by this
  private boolean ending;

  Waiter(Brief brief, int number, Locks locks, Register register) {
    this.brief = brief;
    this.number = number;
    this.locks = locks;
    this.register = register;
    this.random = new Random(brief.seed * 31 + number);
  }

  /** Ends the wait, if there is one; what is held is given back first. */
  synchronized void end() {
    ending = true;
    if (asking) {
      interrupt();
    }
  }

  private synchronized boolean ending() {
    return ending;
  }

  private synchronized boolean asks() {
    asking = !ending;
    return asking;
  }

  private synchronized void asked() {
    asking = false;
    Thread.interrupted();
  }

  @Override
  public void run() {
    try {
      for (int id = number; !ending(); id += brief.waiters) {
        turn(id);
      }
    } catch (IOException | InterruptedException e) {
      System.err.println("waiter: " + e);
      System.exit(1);
    }
  }

  private void turn(int id) throws IOException, InterruptedException {
    String name = brief.names[random.nextInt(brief.names.length)];
    int most = random.nextInt(4) == 0 ? 1 + random.nextInt(4000) : brief.patience;
    long call = brief.now();
    Worker.say("ask %d %s %d", id, name, call);
    Locks.Holding held = null;
    if (asks()) {
      try {
        held = locks.lock(name, most);
      } catch (Exception e) {
        // Not had: what the library says of it is not measured.
      }
      asked();
    }
    if (held != null) {
      keep(held, id, name, call);
    }
    Worker.say("quit %d %d", id, brief.now());
    if (held == null) {
      Thread.sleep(20 + random.nextInt(80));
    }
  }

  /** Mostly a moment, one of 24 for longer than the lease; in nanoseconds. */
  private long length() {
    if (random.nextInt(24) == 0) {
      return (brief.lease + random.nextInt(2000)) * 1_000_000L;
    }
    return random.nextInt(30) * 1_000_000L;
  }

  private void keep(Locks.Holding held, int id, String name, long call) throws IOException, InterruptedException {
    long length = length();
    long begin = brief.now();
    boolean trusted = held.trusted();
    if (trusted) {
      trusted = work(held, id, name, call, begin, length);
      if (trusted) {
        Worker.say("leave %d %d", id, brief.now());
      }
    }
    int end = LEAVING;
    try {
      held.unlock();
      end = FREED;
    } catch (Exception e) {
      // What the store did is not known.
    }
    if (trusted) {
      Worker.say("over %d %d %d", id, end, brief.now());
    }
  }

  /** Updates the resources while the lock is held, and tells whether it was trusted to the end. */
  private boolean work(Locks.Holding held, int id, String name, long call, long begin, long length)
      throws IOException, InterruptedException {
    long token = held.token();
    Worker.say("begin %d %s %d %d %d %d %d", id, name, brief.weight, token, call, begin, begin);
    Long plain = register.read(name, Register.PLAIN, token);
    Long asked = register.read(name, Register.ASKED, token);
    Long fenced = token == 0 ? null : register.read(name, Register.FENCED, token);
    boolean trusted = true;
    while (trusted && brief.now() < begin + length && !ending()) {
      Thread.sleep(5);
      long now = brief.now();
      trusted = held.trusted();
      if (trusted) {
        Worker.say("still %d %d %d", id, now, now);
      } else {
        Worker.say("over %d %d %d", id, GONE, brief.now());
      }
    }
    while (brief.now() < begin + length && !ending()) { // a writer that does not ask goes on with its work
      Thread.sleep(5);
    }
    if (held.trusted()) {
      register.write(name, Register.ASKED, token, asked + 1);
    }
    if (fenced != null) {
      register.write(name, Register.FENCED, token, fenced + 1);
    }
    register.write(name, Register.PLAIN, token, plain + 1);
    return trusted;
  }
}
