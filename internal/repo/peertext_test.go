package repo

// The text of the page about other libraries; the tables are made of figures.
const (
	peerHead = `# Lock libraries under the same faults

The runner of [runs under faults](../explain/chaos.md) can drive lock libraries of others. This page has the measured results;
[another page](../explain/peers.md) has the conclusions. Each library was run %d times, with faults for %v. ` + "`make peers`" + ` runs all libraries again, and
` + "`go run ./proof/chaos -peer NAME -for %[2]v -seed %d -runs %d`" + ` runs one of them. The page is made of
` + "`" + peerFigures + "`" + `; the runner writes this file.

- **Work.** %d processes have four waiters each, %d in all. A waiter takes one of two names and holds it for less than 30 ms; one
  time in 24 it holds for 3 to 5 s. A waiter gives up after 30 s, and one time in four sooner. If a library does not say how
  to give up, its waiters do not give up.
- **Faults.** The same seed draws the same faults for each library, one after the other. A process is killed or stopped; a server
  is stopped, ended or killed and started anew; the way to a server is cut, held or delayed. Chance decides how the faults meet
  the requests, so two runs of one seed differ.
- **Settings.** A lease, an expiry or a session is 3 s where the library or the server lets it be set so. The worker does the work
  that a library leaves to its caller. The servers write each change to the disk. Where there are several servers, a fault hits one
  of them.
- **none** stands where a library has nothing of the kind. A worker in Java, ` + "`" + `proof/chaos/java` + "`" + `, drives the libraries for Java.
  Its process takes some seconds to start; the first fault waits for this start.
- **When.** Redisson and Curator were measured later than the others, beside much more other work (a load of 40 to 70 on two cores).
  Do not compare their times with those of the others, nor the number of their waiters that held again within the minute.

All processes share one machine of two cores. The machine had other work to do, and the times are those of such a machine.

`
	peerOverlaps = `
## Two that hold at once

A process records the times of its holds. A moment counts if the process then asks the library, and the library says that the lock
is held. The table counts the holds that began while an earlier holder still believed in its hold. It also shows the longest time
for which the earlier holder went on to believe. An overlap needs no defect of the library: a process that stood still may go on
for a while before it learns of the loss. Porcupine compared the whole history with the model of a mutex, run by run.

`
	peerUpdates = `
## Updates that are lost

A holder reads a counter at the beginning of a hold, and writes one more at the end. There are three counters. The writers of the
first counter do not ask whether they still hold. The writers of the second ask right before the write. The writers of the third
have a token: the counter refuses a token older than one that has read. An update is lost if the counter accepted it and does not
contain it in the end. One late write takes back all updates since its writer has read. If a row met no late write, its other
columns say nothing.

`
	peerWaits = `
## Waits, and what is left

A wait counts while somebody waits for a name, nobody holds the name, and there is no fault. After a fault, clients may have to
connect again. The bound is 5 s more than the time for which the store may keep the lock of a dead process: the lease, and on Consul
twice the session and the lock-delay that is set. After the last fault the runner waits for up to a minute until each waiter has
held again. When all processes have ended, the runner looks on the servers for what is left, for as long as the bound.

`
	peerRuns = `
## Each run

`
)
