package peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The runner's register of resources, by JSON-RPC over one connection. */
final class Register {
  static final int PLAIN = 0;
  static final int ASKED = 1;
  static final int FENCED = 2;

  private static final Pattern ANSWER = Pattern.compile("\"Value\":(-?\\d+),\"Refused\":(true|false)");

  private final BufferedReader in;
  private final OutputStream out;
  private long calls;

  Register(String addr) throws IOException {
    int colon = addr.lastIndexOf(':');
    Socket socket = new Socket(addr.substring(0, colon), Integer.parseInt(addr.substring(colon + 1)));
    socket.setTcpNoDelay(true);
    in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
    out = socket.getOutputStream();
  }

  /** Returns the value of a resource, or null if the read was refused. */
  Long read(String name, int mode, long token) throws IOException {
    return update(name, mode, token, 0, false);
  }

  void write(String name, int mode, long token, long value) throws IOException {
    update(name, mode, token, value, true);
  }

  private synchronized Long update(String name, int mode, long token, long value, boolean write) throws IOException {
    String request =
        String.format(
            "{\"method\":\"Register.Do\",\"params\":[{\"Cell\":{\"Name\":\"%s\",\"Mode\":%d},\"Token\":%d,\"Value\":%d,\"Write\":%b}],\"id\":%d}%n",
            name, mode, token, value, write, ++calls);
    out.write(request.getBytes(StandardCharsets.UTF_8));
    out.flush();
    String line = in.readLine();
    Matcher answer = ANSWER.matcher(line == null ? "" : line);
    if (!answer.find()) {
      throw new IOException("the register answers " + line);
    }
    return answer.group(2).equals("true") ? null : Long.valueOf(answer.group(1));
  }
}
