package peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonStreamParser;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * A child of the benchmark that drives a library for Java. It is told by its environment and its input what a child in Go is told,
 * and says the same, one JSON value a line; see child.go.
 */
public final class Worker {
  private final Task task;
  private final Locks locks;
  private final JsonStreamParser in;
  private final PrintStream out;

  private Worker(Task task, PrintStream out) throws Exception {
    this.task = task;
    this.out = out;
    this.in = new JsonStreamParser(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    this.locks = task.open();
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err); // what libraries print is no answer
    try {
      Worker worker = new Worker(Task.JSON.fromJson(System.getenv("STILE_BENCH_CHILD"), Task.class), out);
      worker.run();
      worker.locks.close();
    } catch (Exception e) {
      System.err.println("bench: Java: " + e);
      System.exit(1);
    }
    System.exit(0); // libraries leave threads behind
  }

  private void run() throws Exception {
    switch (task.role) {
      case "own":
        begin();
        say(own());
        return;
      case "contention":
        begin();
        say(new Contention(task, locks).run());
        return;
      case "waiter":
        waiter();
        return;
      case "passer":
        passer();
        return;
      default:
        throw new IllegalArgumentException("no role is called " + task.role);
    }
  }

  private void say(Object value) {
    out.println(Task.JSON.toJson(value));
    out.flush();
  }

  /** Returns the next word, or null at the end of the input. */
  private JsonElement hear() {
    return in.hasNext() ? in.next() : null;
  }

  /** Reports whether there is more to do. */
  private boolean more() {
    JsonElement word = hear();
    return word != null && word.getAsBoolean();
  }

  private void begin() {
    say("ready");
    JsonElement word = hear();
    if (word == null || !word.getAsString().equals("go")) {
      throw new IllegalStateException("heard " + word + ", want \"go\"");
    }
  }

  /** Has each thread lock and unlock a name of its own. */
  private Times own() throws Exception {
    long begin = System.nanoTime() + task.warm;
    long end = begin + task.span;
    ExecutorService threads = Executors.newFixedThreadPool(task.size);
    List<Callable<Times>> all = new ArrayList<>();
    for (int i = 0; i < task.size; i++) {
      Locks.Lock lock = locks.of(task.name + "/" + i);
      all.add(() -> cycle(lock, begin, end));
    }
    Times sum = new Times();
    for (Future<Times> one : threads.invokeAll(all)) {
      sum.merge(one.get());
    }
    threads.shutdown();
    return sum;
  }

  private static Times cycle(Locks.Lock lock, long begin, long end) throws Exception {
    Times times = new Times();
    for (long since = System.nanoTime(); since - end < 0; ) {
      lock.lock();
      lock.unlock();
      long now = System.nanoTime();
      if (since - begin > 0) {
        times.add(now - since);
      }
      since = now;
    }
    return times;
  }

  /** Waits for the lock again and again, and tells when it had it. */
  private void waiter() throws Exception {
    Locks.Lock lock = locks.of(task.name);
    while (more()) {
      say("waiting");
      lock.lock();
      long got = System.nanoTime();
      lock.unlock();
      say(got);
    }
  }

  /** Has the lock again and again, and tells when it began to release it. */
  private void passer() throws Exception {
    Locks.Lock lock = locks.of(task.name);
    while (more()) {
      lock.lock();
      say("held");
      if (hear() == null) {
        return;
      }
      long begin = System.nanoTime();
      lock.unlock();
      say(begin);
    }
  }
}
