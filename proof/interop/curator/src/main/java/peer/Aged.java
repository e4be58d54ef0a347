package peer;

import java.io.File;
import java.util.Collections;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Writes the data folder of a ZooKeeper server whose node /NAME has had so many children that the next one gets the given
 * sequence number. That takes years by way of requests.
 *
 * <p>Arguments: the folder, the name, the number.
 */
public final class Aged {
  public static void main(String[] args) throws Exception {
    DataTree tree = new DataTree();
    tree.createNode("/" + args[1], new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, 0, 1, 1, 1);
    tree.getNode("/" + args[1]).stat.setCversion(Integer.parseInt(args[2]));
    tree.lastProcessedZxid = 1;
    File dir = new File(args[0]);
    FileTxnSnapLog log = new FileTxnSnapLog(dir, dir);
    log.save(tree, new ConcurrentHashMap<>(Collections.emptyMap()), true);
    log.close();
  }
}
