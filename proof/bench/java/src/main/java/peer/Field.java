package peer;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** What the holders of one lock leave their trace in: two numbers in a file that all processes map; see contention.go. */
final class Field {
  private static final VarHandle NUMBERS = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
  private static final int LAST = 0;
  private static final int INSIDE = 8;

  private final ByteBuffer memory;

  Field(String file) throws IOException {
    StandardOpenOption[] how = {StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE};
    try (FileChannel channel = FileChannel.open(Path.of(file), how)) {
      memory = channel.map(FileChannel.MapMode.READ_WRITE, 0, 16);
    }
  }

  /** Notes who has the lock, and returns who had it before. */
  long had(long me) {
    return (long) NUMBERS.getAndSet(memory, LAST, me);
  }

  /** Reports whether nobody else was inside. */
  boolean enters(long me) {
    return NUMBERS.compareAndSet(memory, INSIDE, 0L, me);
  }

  void leaves() {
    NUMBERS.setVolatile(memory, INSIDE, 0L);
  }
}
