package peer;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** Some threads that lock and unlock one name as fast as they can, with nothing in between, as contention.go has it. */
final class Contention {
  private final Task task;
  private final Locks locks;
  private final Field field;
  private final AtomicReference<Exception> failed = new AtomicReference<>();

  Contention(Task task, Locks locks) throws Exception {
    this.task = task;
    this.locks = locks;
    this.field = new Field(task.field);
  }

  /** Starts the threads, and returns when the window has ended. A wait that is under way then counts as long as it has lasted. */
  Tally run() throws Exception {
    long begin = System.nanoTime() + task.warm;
    long end = begin + task.span;
    List<Member> all = new ArrayList<>();
    for (int i = 0; i < task.size; i++) {
      all.add(new Member(task.first + i, begin, end));
    }
    all.forEach(Thread::start);
    while (System.nanoTime() - end < 0 && failed.get() == null) {
      Thread.sleep(Math.max(1, Math.min(100, (end - System.nanoTime()) / 1_000_000)));
    }
    all.forEach(Member::giveUp);
    for (Member one : all) {
      one.join();
    }
    if (failed.get() != null) {
      throw failed.get();
    }
    Tally sum = new Tally();
    all.forEach(one -> sum.merge(one.tally));
    return sum;
  }

  /** One of the threads. */
  private final class Member extends Thread {
    private final long me;
    private final long begin;
    private final long end;
    private final Tally tally = new Tally();
    private boolean waits; // guarded by this

    Member(long me, long begin, long end) {
      this.me = me;
      this.begin = begin;
      this.end = end;
    }

    /** Ends a wait. A thread that does not wait is left alone: a release that is interrupted would fail. */
    synchronized void giveUp() {
      if (waits) {
        interrupt();
      }
    }

    private synchronized void waits(boolean does) {
      waits = does;
    }

    @Override
    public void run() {
      try {
        live(locks.of(task.name));
      } catch (Exception e) {
        failed.compareAndSet(null, e);
      }
    }

    private void live(Locks.Lock lock) throws Exception {
      long got = 0;
      long fed = begin;
      while (true) {
        long since = System.nanoTime();
        Exception wrong = since - end < 0 ? waitFor(lock) : new InterruptedException();
        long now = System.nanoTime();
        if (now - end > 0) {
          if (wrong == null) {
            lock.unlock();
          }
          if (since - end < 0) {
            tally.waits.add(end - since);
          }
          tally.each.add(got);
          tally.hunger = Math.max(tally.hunger, end - fed);
          return;
        }
        if (wrong != null) {
          throw wrong;
        }
        long before = field.had(me);
        boolean alone = field.enters(me);
        if (now - begin > 0) {
          got++;
          tally.waits.add(now - since);
          if (before != me) {
            tally.passed++;
          }
          if (Long.divideUnsigned(before - 1, task.size) != Long.divideUnsigned(me - 1, task.size)) {
            tally.crossed++;
          }
          if (!alone) {
            tally.overlaps++;
          }
          tally.hunger = Math.max(tally.hunger, now - fed);
          fed = now;
        }
        field.leaves();
        lock.unlock();
      }
    }

    /** Waits for the lock, and returns what was wrong, or null. */
    private Exception waitFor(Locks.Lock lock) {
      waits(true);
      try {
        lock.lock();
        return null;
      } catch (Exception e) {
        return e;
      } finally {
        waits(false);
        Thread.interrupted();
      }
    }
  }
}
